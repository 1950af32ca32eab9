package main

import (
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// privateNetwork is a network namespace that has a loopback device and nothing else. The programs in it
// reach one address outside: a listener in it passes connections on to a gateway. Without the right to
// make a namespace, it is the network of this host, to whose loopback addresses a gateway does not
// connect, either.
type privateNetwork struct {
	gateway    string // URL of the gateway, inside
	isSeparate bool
	ports      []string    // of programs inside, in use by no program of this host
	calls      chan func() // run inside, one after another
}

// newPrivateNetwork returns a network whose programs will use ports of its loopback address.
func newPrivateNetwork(t *testing.T, gateway string, ports ...string) *privateNetwork {
	t.Helper()
	n := &privateNetwork{calls: make(chan func()), ports: slices.DeleteFunc(ports, isReachable)}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread with the namespace ends with the goroutine
		entered <- enterNamespace()
		for call := range n.calls {
			call()
		}
	}()
	t.Cleanup(func() { close(n.calls) })
	if err := <-entered; err != nil {
		t.Logf("no network namespace: %v", err)
		n.gateway = gateway
		return n
	}
	n.isSeparate = true
	var inside net.Listener
	if err := n.do(func() (err error) { inside, err = net.Listen("tcp", "127.0.0.1:0"); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	go clitest.PassOn(inside, "tcp", strings.TrimPrefix(gateway, "http://"))
	n.gateway = "http://" + inside.Addr().String()
	return n
}

// enterNamespace puts this thread into a new network namespace with a loopback device.
func enterNamespace() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}

// do runs a function inside.
func (n *privateNetwork) do(f func() error) error {
	result := make(chan error)
	n.calls <- func() { result <- f() }
	return <-result
}

// start starts a program inside.
func (n *privateNetwork) start(cmd *exec.Cmd) error { return n.do(cmd.Start) }

// wantUnreachable fails the test if this host can connect to the programs inside.
func (n *privateNetwork) wantUnreachable(t *testing.T) {
	t.Helper()
	if open := slices.DeleteFunc(n.ports, func(port string) bool { return !isReachable(port) }); n.isSeparate && len(open) > 0 {
		t.Errorf("this host can connect to the ports %v", open)
	}
}

// isReachable reports whether this host can connect to a port of its own loopback address.
func isReachable(port string) bool {
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
