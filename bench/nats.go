package main

import (
	"context"
	"fmt"
	"os"

	"github.com/eventhook/eventhook/internal/natstest"
)

// natsReady precedes the addresses in the output of serveNATS.
const natsReady = "NATS servers at "

// serveNATS runs a cluster of three servers until ctx ends. If syncs is set, they write each message to
// the disk before they acknowledge it; otherwise the system writes it later.
func serveNATS(ctx context.Context, dir string, syncs bool) {
	const servers = 3
	o := &natsOwner{dir: dir}
	var c *natstest.Cluster
	if syncs {
		c = natstest.NewCluster(o, servers, natstest.SyncAlways)
	} else {
		c = natstest.NewCluster(o, servers)
	}
	fmt.Println(natsReady + c.URL())
	<-ctx.Done()
	c.Stop()
}

// startNATS starts serveNATS in a process and returns the addresses of the servers.
func (r *run) startNATS(ctx context.Context, args ...string) (*process, string, error) {
	dir, err := os.MkdirTemp(r.dir, "nats-")
	if err != nil {
		return nil, "", err
	}
	return start(ctx, natsReady, os.Args[0], nil, append([]string{"-nats", dir}, args...)...)
}

// natsOwner is what the servers of a process belong to. It implements natstest.T. The bench removes the
// folder, and the servers end with the process.
type natsOwner struct{ dir string }

// Helper implements natstest.T.
func (*natsOwner) Helper() {}

// Cleanup implements natstest.T.
func (*natsOwner) Cleanup(func()) {}

// Fatal implements natstest.T.
func (*natsOwner) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

// Fatalf implements natstest.T.
func (o *natsOwner) Fatalf(format string, args ...any) { o.Fatal(fmt.Sprintf(format, args...)) }

// TempDir implements natstest.T.
func (o *natsOwner) TempDir() string {
	dir, err := os.MkdirTemp(o.dir, "node-")
	if err != nil {
		o.Fatal(err)
	}
	return dir
}
