from workers.models.former_pin import FormerPin
from workers.models.host import Host, HostPin

__all__ = ["FormerPin", "Host", "HostPin"]
