#!/bin/sh
# Stops the gateway and the agent before its removal. An upgrade does not stop it.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
	if [ -d /run/systemd/system ]; then systemctl stop eventhook.service eventhook-agent.service; fi
	if command -v systemctl >/dev/null; then systemctl disable eventhook.service eventhook-agent.service || true; fi
fi
