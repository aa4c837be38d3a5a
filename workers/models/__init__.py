from workers.models.cached import CachedImage
from workers.models.former_pin import FormerPin
from workers.models.host import Host, HostPin, HostRelay
from workers.models.watch import FleetWatch

__all__ = ["CachedImage", "FleetWatch", "FormerPin", "Host", "HostPin", "HostRelay"]
