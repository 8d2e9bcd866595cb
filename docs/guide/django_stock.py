"""Sells what is in stock, on many hosts: gunicorn --workers 2 django_stock"""
import redlock_quorum
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpResponse
from django.urls import path

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], DATABASES={
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "stock.sqlite3"}})
nodes = redlock_quorum.Client()  # of REDLOCK_NODES, or /etc/redlock.conf


def sell(_request, item):
    try:  # the transaction ends before the lock does
        with nodes.lock(f"stock:{item}", timeout=5) as hold, transaction.atomic():
            with connection.cursor() as rows:
                rows.execute("SELECT count FROM stock WHERE item = %s", [item])
                left = rows.fetchone()[0] - 1
                hold.check()  # raises Lost, and nothing is written
                rows.execute("UPDATE stock SET count = %s WHERE item = %s", [left, item])
    except redlock_quorum.WaitTimeout:
        return HttpResponse("try again\n", status=503)
    return HttpResponse(f"{left} left\n")


urlpatterns = [path("sell/<item>", sell)]
application = get_wsgi_application()
