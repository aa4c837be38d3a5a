from workers.models.host import Host, HostPin

__all__ = ["Host", "HostPin"]
