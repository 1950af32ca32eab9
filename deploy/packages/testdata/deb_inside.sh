#!/usr/bin/env bash
# The steps of install.sh for a deb, inside the copy of the file system.
set -euo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }
want() { [ "$1" = "$2" ] || fail "$3: got $1, want $2"; }
cd /opt/package
unit=/usr/lib/systemd/system/eventhook.service

install() {
	# There is no network: the package needs what every Debian has.
	printf '%s\n' 'APT::Install-Recommends "false";' 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/99deb
	. ./page1.sh 2>&1 | tee /tmp/install.log
	rm /etc/apt/apt.conf.d/99deb
	grep -q "is installed and not started" /tmp/install.log || fail "the package does not say how to start the gateway"
	want "$(stat -c '%U:%G %a' /etc/eventhook/eventhook.yaml)" "root:eventhook 640" "permissions of the settings"
	want "$(stat -c '%U:%G %a' /etc/eventhook/eventhook.env)" "root:eventhook 640" "permissions of the secrets"
	want "$(stat -c '%U:%G %a' /etc/eventhook/agent.env)" "root:root 600" "permissions of the key of an agent"
	want "$(stat -c '%U:%G %a' /var/lib/eventhook/data)" "eventhook:eventhook 700" "permissions of the data"
	want "$(getent passwd eventhook | cut -d: -f6,7)" "/var/lib/eventhook/data:/usr/sbin/nologin" "home and shell of the user"
	want "$(dpkg-query -W -f='${Conffiles}' eventhook | grep -c /etc/eventhook/)" 3 "configuration files"
	eventhook version
	# An upgrade, here to the same version, keeps a changed file.
	echo "# changed" >>/etc/eventhook/eventhook.yaml
	dpkg -i ./eventhook_*.deb >/tmp/upgrade.log 2>&1 || { cat /tmp/upgrade.log; fail "the upgrade"; }
	grep -q "# changed" /etc/eventhook/eventhook.yaml || fail "an upgrade overwrote a configuration file"
	if grep -q "not started" /tmp/upgrade.log; then fail "an upgrade prints the words for a new installation"; fi
	eventhook check --config /etc/eventhook/eventhook.yaml
}

verify() {
	command -v systemd-analyze >/dev/null || { echo "no systemd-analyze"; return; }
	local faults
	faults=$(systemd-analyze verify "$unit" "${unit%.service}-agent.service" 2>&1 | grep eventhook || true)
	[ -z "$faults" ] || fail "systemd-analyze verify: $faults"
}

# gateway runs the unit's ExecStart as its user, with its EnvironmentFile and restrictions.
gateway() {
	local user command
	user=$(sed -n 's/^User=//p' "$unit")
	command=$(sed -n 's/^ExecStart=//p' "$unit")
	set -a
	. "$(sed -n 's/^EnvironmentFile=-//p' "$unit")"
	set +a
	exec setpriv --reuid="$user" --regid="$(sed -n 's/^Group=//p' "$unit")" --init-groups --inh-caps=-all --bounding-set=-all \
		/opt/package/hardened $command
}

# agent runs the ExecStart of the agent's unit with its EnvironmentFile, until its end. The package enables
# no unit.
agent() {
	local agent=${unit%.service}-agent.service command
	if find /etc/systemd/system -name 'eventhook*' | grep .; then fail "the package enables a unit"; fi
	command=$(sed -n 's/^ExecStart=//p' "$agent")
	set -a
	eval "$(sed -n 's/^\([A-Z_]*\)=\(.*\)/\1="\2"/p' "$(sed -n 's/^EnvironmentFile=//p' "$agent")")"
	set +a
	eval "HARDENED_UNIT=$agent exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all /opt/package/hardened $command"
}

start() {
	local code=0
	(agent) >/tmp/agent.log 2>&1 || code=$?
	want "$code" 2 "exit code of the agent without a key"
	grep -q "EVENTHOOK_KEY is required" /tmp/agent.log || { cat /tmp/agent.log; fail "the agent does not ask for its key"; }
	export HOME=/ STATE_DIRECTORY=/var/lib/eventhook/data
	gateway >/tmp/gateway.log 2>&1 &
	local pid=$! tenant=demo
	until eventhook health >/dev/null 2>&1; do
		kill -0 $pid 2>/dev/null || { cat /tmp/gateway.log; fail "the gateway ended"; }
		sleep 0.2
	done
	if grep -q "without a system call filter" /tmp/gateway.log; then fail "scripts run without their filter"; fi
	# The commands of root find the generated key, and a script process runs a transform.
	. ./page2.sh
	export EVENTHOOK_TENANT=$tenant
	eventhook tenant create $tenant --name Demo
	# The first run starts a script process. On a loaded machine a run may exceed its 100 ms; the
	# process stays.
	until eventhook expression test --filter-function 'function filter(event) { return event.body.n > 1 }' --body '{"n":2}' >/tmp/expression.log 2>&1 &&
		grep -q "^Matches" /tmp/expression.log; do
		grep -q "longer than" /tmp/expression.log || { cat /tmp/expression.log; fail "a script does not run"; }
	done
	local child limits
	child=$(pgrep -f -n '^eventhook-script' || true)
	[ -n "$child" ] || fail "there is no script process"
	limits=$(tr -s ' ' </proc/$child/limits)
	grep -q "^Max open files 16 16 files" <<<"$limits" || fail "the script process has not limited itself: $limits"
	want "$(stat -c %U /var/lib/eventhook/data/postgres/PG_VERSION)" eventhook "owner of the private PostgreSQL"
	want "$(awk '/^Uid:/ {print $2}' /proc/$pid/status)" "$(id -u eventhook)" "user of the gateway"
	kill -TERM $pid
	wait $pid || { cat /tmp/gateway.log; fail "the gateway stopped with exit code $?"; }
}

purge() {
	dpkg --remove eventhook
	[ -e /etc/eventhook/eventhook.yaml ] || fail "a removal deleted the configuration"
	[ ! -e /usr/bin/eventhook ] || fail "a removal left the program"
	dpkg --purge eventhook
	[ ! -e /etc/eventhook ] || fail "a purge left the configuration"
	[ -e /var/lib/eventhook/data/postgres/PG_VERSION ] || fail "a purge deleted the data"
	getent passwd eventhook >/dev/null || fail "a purge deleted the user, who owns data"
	# Without data, a purge also deletes the user.
	rm -rf /var/lib/eventhook
	dpkg -i ./eventhook_*.deb >/dev/null
	dpkg --purge eventhook
	if getent passwd eventhook >/dev/null; then fail "a purge without data left the user"; fi
	if getent group eventhook >/dev/null; then fail "a purge without data left the group"; fi
}

"$1"
