from workers.admin.host import HostAdmin

__all__ = ["HostAdmin"]
