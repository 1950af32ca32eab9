#!/usr/bin/env bash
# Installs, starts, checks, removes and purges a package in a copy of this machine's file system: an
# overlay in memory. Run it in new mount, pid, network and ipc namespaces. It changes nothing
# outside and ends with everything that it started.
#
#   install.sh deb PACKAGE HARDENED PAGE
#   install.sh rpm PACKAGE
#
# HARDENED runs a command under the unit's restrictions. PAGE has the commands of the runbook:
# page1.sh installs the package, page2.sh uses the started gateway. An rpm is not started: its
# program and its unit are those of the deb.
set -euo pipefail
step() { echo "== $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

kind=$1
over=$(mktemp -d)
root=$over/root
mount -t tmpfs tmpfs "$over"
mkdir "$over"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$over/upper,workdir=$over/work" "$root"
# The overlay has no other file systems: a copy of the test's files is enough.
mkdir -p "$root/opt/package"
cp "$2" "$(dirname "$0")/$1_inside.sh" "$root/opt/package/"
if [ "$1" = deb ]; then
	cp "$4"/page[12].sh "$root/opt/package/"
	cp "$3" "$root/opt/package/hardened"
fi
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount --rbind /dev "$root/dev"
mkdir -p "$root/dev/shm"
ip link set lo up

inside() { chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
	bash "/opt/package/${kind}_inside.sh" "$1"; }

# In the overlay, which this machine does not see: remove what a gateway of this machine owns.
rm -rf "${root:?}/usr/bin/eventhook" "$root/etc/eventhook" "$root/var/lib/eventhook"
(cd "$root" && find usr etc var/lib 2>/dev/null | grep -v "^var/lib/\(dpkg\|apt\)/" | sort) >"$over/before"
step install
inside install
if [ "$kind" = deb ]; then
	step verify the unit
	inside verify
	# ProtectSystem=strict: the file system is read-only but for the state.
	mount --bind "$root/var/lib/eventhook/data" "$root/var/lib/eventhook/data"
	mount -o remount,bind,ro "$root"
	step start
	inside start
	mount -o remount,bind,rw "$root"
	umount "$root/var/lib/eventhook/data"
fi
step remove and purge
inside purge
(cd "$root" && find usr etc var/lib 2>/dev/null | grep -v '^var/lib/\(dpkg\|apt\)/' | sort) >"$over/after"
left=$(comm -13 "$over/before" "$over/after" | grep -v '^var/lib/eventhook\(/\|$\)' || true)
[ -z "$left" ] || fail "the package leaves files: $left"
step passed
