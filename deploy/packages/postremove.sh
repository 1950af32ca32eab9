#!/bin/sh
# Keeps the data in /var/lib/eventhook/data, and the user who owns it. Without data, a purge deletes the
# user.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
if [ "$1" = purge ] || [ "$1" = 0 ]; then
	if [ -e /var/lib/eventhook/data ]; then
		echo "The data of Eventhook is kept in /var/lib/eventhook/data."
	elif getent passwd eventhook >/dev/null; then
		userdel eventhook
	fi
fi
