#!/usr/bin/env bash
# The steps of install.sh for an rpm, inside the copy of the file system. The database of rpm is
# empty, so no dependency is known.
set -euo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }
want() { [ "$1" = "$2" ] || fail "$3: got $1, want $2"; }
cd /opt/package
rpm() { command rpm --dbpath /var/lib/eventhook-rpm --nodeps --force-debian "$@"; }

install() {
	rpm -i ./*.rpm >/tmp/install.log 2>&1 || { cat /tmp/install.log; fail "the installation"; }
	grep -q "is installed and not started" /tmp/install.log || fail "the package does not say how to start the gateway"
	want "$(stat -c '%U:%G %a' /etc/eventhook/eventhook.yaml)" "root:eventhook 640" "permissions of the settings"
	want "$(stat -c '%U:%G %a' /etc/eventhook/eventhook.env)" "root:eventhook 640" "permissions of the secrets"
	want "$(stat -c '%U:%G %a' /etc/eventhook/agent.env)" "root:root 600" "permissions of the key of an agent"
	want "$(stat -c '%U:%G %a' /var/lib/eventhook/data)" "eventhook:eventhook 700" "permissions of the data"
	want "$(command rpm --dbpath /var/lib/eventhook-rpm -qc eventhook | grep -c /etc/eventhook/)" 3 "configuration files"
	eventhook version
	echo "# changed" >>/etc/eventhook/eventhook.yaml
	rpm -U --replacepkgs ./*.rpm >/tmp/upgrade.log 2>&1 || { cat /tmp/upgrade.log; fail "the upgrade"; }
	grep -q "# changed" /etc/eventhook/eventhook.yaml || fail "an upgrade overwrote a configuration file"
	eventhook check --config /etc/eventhook/eventhook.yaml
}

purge() {
	touch /var/lib/eventhook/data/file
	rpm -e eventhook
	[ ! -e /usr/bin/eventhook ] || fail "a removal left the program"
	[ -e /etc/eventhook/eventhook.yaml.rpmsave ] || fail "a removal deleted the changed configuration"
	[ -e /var/lib/eventhook/data/file ] || fail "a removal deleted the data"
	getent passwd eventhook >/dev/null || fail "a removal deleted the user, who owns data"
	# Without data, a removal also deletes the user.
	rm -rf /var/lib/eventhook /etc/eventhook
	rpm -i ./*.rpm >/dev/null
	rpm -e eventhook
	if getent passwd eventhook >/dev/null; then fail "a removal without data left the user"; fi
	if getent group eventhook >/dev/null; then fail "a removal without data left the group"; fi
	rm -rf /var/lib/eventhook-rpm
}

"$1"
