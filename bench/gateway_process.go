package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	servers "github.com/eventhook/eventhook/bench/process"
)

// process is a server that the bench started.
type process struct{ *servers.Process }

// start runs a program and waits until it prints a line with its address. The address
// is the text after the given line.
func start(ctx context.Context, line, binary string, env []string, args ...string) (*process, string, error) {
	p, found, err := servers.Start(ctx, servers.Command{Binary: binary, Args: args, Env: env}, line)
	if err != nil {
		return nil, "", err
	}
	return &process{p}, found[0], nil
}

func (p *process) stop() { _ = p.Stop() }

// databaseCPU returns the processor time of the running PostgreSQL processes of the
// gateway in microseconds.
func (g *gateway) databaseCPU() float64 {
	raw, err := os.ReadFile(filepath.Join(g.dir, "postgres", "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return servers.ChildrenCPU(postmaster)
}

// raiseToMemory raises peak to the memory that the process has now, in bytes.
func (p *process) raiseToMemory(peak *float64) error {
	bytes, err := p.Memory()
	*peak = max(*peak, bytes)
	return err
}
