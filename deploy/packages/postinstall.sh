#!/bin/sh
# Restarts a running gateway and a running agent after an upgrade. A new installation is configured before
# its start.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart eventhook.service eventhook-agent.service
fi
# dpkg calls "configure OLD_VERSION", rpm calls with the number of installed versions.
if [ "$1" = configure ] && [ -z "$2" ] || [ "$1" = 1 ]; then
	echo "Eventhook is installed and not started. Configure it in /etc/eventhook, then: systemctl enable --now eventhook"
	echo "An agent instead of a gateway: see agent.env, then: systemctl enable --now eventhook-agent"
fi
