"""Objects in a bucket of an S3 server. `open_backend` is the way in: it refuses a server that would lose or keep what it should not.

Imported only where it is configured: boto3 takes a quarter of a second to load.
"""

from .backend import S3Backend, open_backend
from .bucket import Bucket
from .place import Credentials, S3Place
from .probe import UnfitServerError, probe
from .retry import BRIEF, Patience
from .writes import Terms

__all__ = ["BRIEF", "Bucket", "Credentials", "Patience", "S3Backend", "S3Place", "Terms", "UnfitServerError", "open_backend", "probe"]
