#!/bin/sh
# Creates the user of the gateway. The files of the package belong to its group.
set -e
getent group eventhook >/dev/null || groupadd --system eventhook
getent passwd eventhook >/dev/null || useradd --system --gid eventhook --no-create-home \
	--home-dir /var/lib/eventhook/data --shell /usr/sbin/nologin --comment "Eventhook webhook gateway" eventhook
