//go:build !linux

package main

import (
	"os/exec"
	"testing"
)

// privateNetwork is the network of this host, to whose loopback addresses a gateway does not connect.
type privateNetwork struct{ gateway string }

func newPrivateNetwork(_ *testing.T, gateway string, _ ...string) *privateNetwork {
	return &privateNetwork{gateway}
}

func (*privateNetwork) start(cmd *exec.Cmd) error { return cmd.Start() }

func (*privateNetwork) wantUnreachable(*testing.T) {}
