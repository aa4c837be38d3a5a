"""Every route. The wire contract's routes belong to the apps; what stands here is the site's own."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from keepstate_site.observe import health, metrics
from sessions_app.api.urls import catch_all

admin.site.index_title = "Dashboard"
admin.site.index_template = "console/dashboard.html"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="api-docs")),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("api/schema", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs", SpectacularSwaggerSplitView.as_view(), name="api-docs"),
    path("", include("keepstate_site.sign_in.urls")),
    path("", include("sessions_app.api.urls")),
    path("", include("checkpoints_app.api.urls")),
    path("", include("gateway_app.api.urls")),
    *catch_all,  # last: what no app serves under /api
]
