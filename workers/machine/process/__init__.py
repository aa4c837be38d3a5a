"""Hypervisor processes on this host: started, recognised and ended, whichever hypervisor they are."""
