"""The rules. The API, the admin, Celery tasks and commands only adapt what is here."""
