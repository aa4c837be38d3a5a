"""KeepState's settings. Everything that differs between installations comes from the environment (docs/operations/configure.md)
and is safe by default: no secret in the code, DEBUG off, loopback only, one local directory for all state."""

from pathlib import Path

from keepstate_site.settings import environment as env
from keepstate_site.settings import isolation, logs, queue, security, sign_in
from keepstate_site.settings.admin import UNFOLD  # noqa: F401  a setting of django-unfold
from keepstate_site.settings.database import database
from keepstate_site.settings.store import checkpoint_storage

BASE_DIR = Path(__file__).resolve().parents[2]
KEEPSTATE_VAR = env.state_directory(BASE_DIR)
KEEPSTATE_SECRETS = KEEPSTATE_VAR / "secrets"
KEEPSTATE_ROLE = env.text("KEEPSTATE_ROLE", "command")  # web, worker or command: decides pool and timeouts
KEEPSTATE_IMAGES = Path(env.text("KEEPSTATE_IMAGES", str(KEEPSTATE_VAR / "images"))).absolute()
KEEPSTATE_HOST_ID = env.text("KEEPSTATE_HOST_ID")  # empty: drawn once and kept below KEEPSTATE_VAR
KEEPSTATE_HOST_SHARE = env.number("KEEPSTATE_HOST_SHARE", 1, low=1, high=64)  # so many hosts share this machine's memory
KEEPSTATE_MACHINE_DRIVER = env.text("KEEPSTATE_MACHINE_DRIVER", "qemu")  # or fake: machines without a hypervisor, for tests
KEEPSTATE_HOST_SILENT_SECONDS = env.number("KEEPSTATE_HOST_SILENT_SECONDS", 20, low=3, high=3600)  # then a host takes no new work
KEEPSTATE_MOVE_PATIENCE_SECONDS = env.number("KEEPSTATE_MOVE_PATIENCE_SECONDS", 600, low=0, high=86400)  # commands waited for by a drain
KEEPSTATE_HOST_RETURN_SECONDS = env.number("KEEPSTATE_HOST_RETURN_SECONDS", 300, low=0, high=86400)  # workers that were stopped in order
KEEPSTATE_DEAF_SECONDS = env.number("KEEPSTATE_DEAF_SECONDS", 60, low=10, high=3600)  # then a worker that hears nothing ends itself
KEEPSTATE_HOST_LOST_SECONDS = env.number("KEEPSTATE_HOST_LOST_SECONDS", 25, low=5, high=86400)  # then its sessions go on elsewhere
KEEPSTATE_PLACEMENT_WAIT_SECONDS = env.number("KEEPSTATE_PLACEMENT_WAIT_SECONDS", 600, low=1, high=7 * 86400)  # for a host with room
KEEPSTATE_RELAY_LISTEN = env.address("KEEPSTATE_RELAY_LISTEN")  # None: files and consoles only from this machine
KEEPSTATE_RELAY_ADDRESS = env.text("KEEPSTATE_RELAY_ADDRESS")
KEEPSTATE_LEASE_SECONDS = env.number("KEEPSTATE_LEASE_SECONDS", 30, low=3, high=3600)  # a dead worker's work is taken up after this
KEEPSTATE_ACCOUNT_GRACE_HOURS = env.number("KEEPSTATE_ACCOUNT_GRACE_HOURS", 168, low=0, high=10_000)  # until an account's deletion begins
KEEPSTATE_CONSOLE_IDLE_MINUTES = env.number("KEEPSTATE_CONSOLE_IDLE_MINUTES", 60, low=1, high=10_000)  # a console without a byte is closed
KEEPSTATE_CACHE_GIB = env.number("KEEPSTATE_CACHE_GIB", 20, low=1, high=1_000_000)  # assembled images kept on this host
KEEPSTATE_PACK_CACHE_GIB = env.number("KEEPSTATE_PACK_CACHE_GIB", 10, low=1, high=1_000_000)  # packs of a store elsewhere, kept here
KEEPSTATE_RESUME = env.choice("KEEPSTATE_RESUME", "whole", {"whole", "lazy"})  # how memory comes back that is not assembled here yet
KEEPSTATE_ISOLATION = env.choice("KEEPSTATE_ISOLATION", "auto", {"auto", "required", "off"})  # a user, a root and limits for each machine
KEEPSTATE_MACHINE_UIDS = isolation.uids("KEEPSTATE_MACHINE_UIDS", "1900000000-1900065535")  # the users of this host's machines
KEEPSTATE_CGROUP = isolation.directory("KEEPSTATE_CGROUP")  # a delegated cgroup v2 directory, or None
KEEPSTATE_MASTER_KEY = env.key("KEEPSTATE_MASTER_KEY", KEEPSTATE_SECRETS / "master_key")  # seals the accounts' own keys
KEEPSTATE_MASTER_KEY_PREVIOUS = env.optional_key("KEEPSTATE_MASTER_KEY_PREVIOUS")  # opens only, while the master key is exchanged
KEEPSTATE_RECHECK_SAVES = env.number("KEEPSTATE_RECHECK_SAVES", 50, low=0, high=1_000_000)  # every so many saves are hashed whole
KEEPSTATE_SCRUB_DAYS = env.number("KEEPSTATE_SCRUB_DAYS", 30, low=1, high=3650)  # everything stored is read at least once in so many days
KEEPSTATE_SCRUB_MIB = env.number("KEEPSTATE_SCRUB_MIB", 256, low=1, high=1_000_000)  # so much of it in a minute at most
KEEPSTATE_WEBHOOK_NETWORKS = env.networks("KEEPSTATE_WEBHOOK_NETWORKS")  # private networks that webhooks may go to all the same
KEEPSTATE_QUOTA_SESSIONS = env.number("KEEPSTATE_QUOTA_SESSIONS", 0, low=0, high=10**9)  # of an account without its own; 0: no limit
KEEPSTATE_QUOTA_MACHINES = env.number("KEEPSTATE_QUOTA_MACHINES", 0, low=0, high=10**9)  # awake at the same time
KEEPSTATE_QUOTA_GIB = env.number("KEEPSTATE_QUOTA_GIB", 0, low=0, high=10**9)  # in the store
KEEPSTATE_RECORD_DAYS = env.number("KEEPSTATE_RECORD_DAYS", 400, low=1, high=36_500)  # the service record's own retention
KEEPSTATE_METRICS_TOKEN = env.text("KEEPSTATE_METRICS_TOKEN")  # who shows it may read /metrics; empty: this machine alone
KEEPSTATE_TOKEN_DAYS = env.number("KEEPSTATE_TOKEN_DAYS", 90, low=1, high=3650)  # the life of a token unless another is asked for
KEEPSTATE_RATE_TOKEN = env.number("KEEPSTATE_RATE_TOKEN", 1200, low=0, high=10**9)  # requests of a token in a minute; 0: no bound
KEEPSTATE_RATE_ACCOUNT = env.number("KEEPSTATE_RATE_ACCOUNT", 6000, low=0, high=10**9)  # of all tokens of an account
KEEPSTATE_RATE_ADDRESS = env.number("KEEPSTATE_RATE_ADDRESS", 240, low=0, high=10**9)  # without a token or with a wrong one
KEEPSTATE_GATEWAY_DRAIN_SECONDS = env.number("KEEPSTATE_GATEWAY_DRAIN_SECONDS", 900, low=0, high=86_400)  # to end what it reads
KEEPSTATE_PROVIDERS = {
    "anthropic": env.url("KEEPSTATE_ANTHROPIC_URL", "https://api.anthropic.com", {"https", "http"}).rstrip("/"),
    "openai": env.url("KEEPSTATE_OPENAI_URL", "https://api.openai.com", {"https", "http"}).rstrip("/"),
    "gemini": env.url("KEEPSTATE_GEMINI_URL", "https://generativelanguage.googleapis.com", {"https", "http"}).rstrip("/"),
}

SECRET_KEY = env.secret("KEEPSTATE_SECRET_KEY", KEEPSTATE_SECRETS / "secret_key")
DEBUG = env.flag("KEEPSTATE_DEBUG")

INSTALLED_APPS = [
    "unfold",  # before the admin, which it dresses
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "axes",
    "sessions_app",
    "checkpoints_app",
    "gateway_app",
    "workers",
    "keepstate_site",
]
MIDDLEWARE = [
    "keepstate_site.middleware.RequestIdMiddleware",
    "keepstate_site.observe.requests.RequestMetricsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "keepstate_site.middleware.ContentPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "keepstate_site.sign_in.rate.PasswordRateMiddleware",
    "axes.middleware.AxesMiddleware",  # last: it turns a refused sign-in into the page that says so
]
ROOT_URLCONF = "keepstate_site.urls"
ASGI_APPLICATION = "keepstate_site.asgi.application"
APPEND_SLASH = False  # the wire contract's routes have none; a redirect would drop a POST's body
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {"default": database(env.url("DATABASE_URL", "postgresql:///keepstate", {"postgresql", "postgres"}), KEEPSTATE_ROLE)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = env.url("REDIS_URL", "redis://127.0.0.1:6379/0", {"redis", "rediss", "unix"})
globals().update(queue.settings(REDIS_URL, env.number("KEEPSTATE_SWEEP_SECONDS", 5, low=1, high=60)))
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "process": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "process"},  # what one process need not ask twice
}

STATIC_URL = "/static/"
STATIC_ROOT = Path(env.text("KEEPSTATE_STATIC", str(KEEPSTATE_VAR / "static"))).absolute()  # made by a start
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},  # nothing of ours keeps uploads
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
    "checkpoints": checkpoint_storage(
        env.text("CHECKPOINT_STORE_URL", (KEEPSTATE_VAR / "store").as_uri()), KEEPSTATE_SECRETS / "s3_credentials"
    ),
}

LANGUAGE_CODE = "en-us"
USE_I18N = False
FORMAT_MODULE_PATH = "keepstate_site.formats"
TIME_ZONE = "UTC"
USE_TZ = True

ALLOWED_HOSTS = env.words("KEEPSTATE_ALLOWED_HOSTS", "127.0.0.1 localhost [::1]")
CSRF_TRUSTED_ORIGINS = env.words("KEEPSTATE_TRUSTED_ORIGINS")
KEEPSTATE_TLS = env.flag("KEEPSTATE_TLS")
globals().update(security.settings(tls=KEEPSTATE_TLS, behind_proxy=env.flag("KEEPSTATE_BEHIND_TLS_PROXY")))
globals().update(
    sign_in.settings(
        failures=env.number("KEEPSTATE_LOGIN_FAILURES", 5, low=1, high=1000),
        lock_minutes=env.number("KEEPSTATE_LOGIN_LOCK_MINUTES", 15, low=1, high=100_000),
    )
)
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

LOGGING_CONFIG = None
logs.configure(level=env.text("KEEPSTATE_LOG_LEVEL", "INFO").upper(), console=env.flag("KEEPSTATE_LOG_CONSOLE"))

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],  # a view that forgets is closed
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
}
SPECTACULAR_SETTINGS = {
    "TITLE": "KeepState",
    "DESCRIPTION": "Durable sessions for AI agents in microVMs: save a whole machine, resume it mid-work.",
    "VERSION": "2",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "sessions_app.api.schema.add_common_answers"],
}
