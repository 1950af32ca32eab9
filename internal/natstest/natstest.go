// Package natstest runs NATS servers with JetStream in the process of a test or of the bench.
package natstest

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startLimit allows for a busy machine.
const startLimit = time.Minute

// T is the test that the servers belong to, such as a testing.TB. Fatal and Fatalf do not return.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
	TempDir() string
}

// Server is a NATS server that a test may stop and start again, with its address and its data.
type Server struct {
	t       T
	options server.Options
	server  *server.Server // nil while it is stopped
}

// New starts a server with JetStream. change, unless nil, changes its options. It ends with the test.
func New(t T, change func(*server.Options)) *Server {
	t.Helper()
	o := server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 64 << 30}
	if change != nil {
		change(&o)
	}
	s := &Server{t: t, options: o}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts a server that was stopped.
func (s *Server) Start() {
	s.t.Helper()
	o := s.options
	running, err := server.NewServer(&o)
	if err != nil {
		s.t.Fatalf("natstest: %v", err)
	}
	running.Start()
	if !running.ReadyForConnections(startLimit) {
		s.t.Fatal("natstest: the server does not start")
	}
	s.server = running
	s.options.Port = portOf(running.Addr())
}

// Stop ends the server at once. Its data stays.
func (s *Server) Stop() {
	if s.server != nil {
		s.server.Shutdown()
		s.server.WaitForShutdown()
		s.server = nil
	}
}

// URL returns the address of the server, also while it is stopped.
func (s *Server) URL() string { return "nats://" + s.Address() }

// Address returns the host and the port of the server, also while it is stopped.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.options.Port) }

// Connect returns a client of the server, with options such as nats.UserInfo. It ends with the test.
func (s *Server) Connect(options ...nats.Option) jetstream.JetStream {
	s.t.Helper()
	return Connect(s.t, s.URL(), options...)
}

// Connect returns a client of servers, whose URLs are separated by commas. It ends with the test.
func Connect(t T, urls string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	c, err := nats.Connect(urls, append(options, nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait))...)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	return js
}

const reconnectWait = 50 * time.Millisecond

// Cluster is a cluster of servers.
type Cluster struct {
	t       T
	Servers []*Server
}

// SyncAlways makes a server write each message to the disk before it acknowledges the message.
func SyncAlways(o *server.Options) { o.SyncAlways = true }

// NewCluster starts a cluster of n servers and waits until JetStream has a leader. Each of changes
// changes the options of the servers.
func NewCluster(t T, n int, changes ...func(*server.Options)) *Cluster {
	t.Helper()
	options := make([]server.Options, n)
	for i := range options {
		options[i] = server.Options{ServerName: fmt.Sprintf("node-%d", i+1), JetStream: true, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 64 << 30,
			Cluster: server.ClusterOpts{Name: "natstest"}}
		for _, change := range changes {
			change(&options[i])
		}
	}
	return NewClusterOf(t, options)
}

// NewClusterOf is NewCluster with options of each server, such as those of a configuration file. Their
// addresses, routes and folders are replaced.
func NewClusterOf(t T, options []server.Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	routes := make([]*url.URL, len(options))
	ports := freePorts(t, len(options))
	for i, port := range ports {
		routes[i] = &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", port)}
		if own := options[i].Cluster; own.Username != "" {
			routes[i].User = url.UserPassword(own.Username, own.Password)
		}
	}
	for i, o := range options {
		o.Host, o.Port, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT, 0
		o.Cluster.Host, o.Cluster.Port, o.Routes = "127.0.0.1", ports[i], routes
		o.StoreDir, o.NoLog, o.NoSigs = t.TempDir(), true, true
		s := &Server{t: t, options: o}
		t.Cleanup(s.Stop)
		s.Start()
		c.Servers = append(c.Servers, s)
	}
	c.WaitForLeader()
	return c
}

// URL returns the addresses of all servers, separated by commas.
func (c *Cluster) URL() string {
	text := ""
	for i, s := range c.Servers {
		if i > 0 {
			text += ","
		}
		text += s.URL()
	}
	return text
}

// WaitForLeader waits until the running servers have elected a leader of JetStream, and the leader
// has heard from all of them: before, it places no replicas on them.
func (c *Cluster) WaitForLeader() {
	c.t.Helper()
	until := time.Now().Add(startLimit)
	for time.Now().Before(until) {
		for _, s := range c.Servers {
			if s.server != nil && len(s.server.JetStreamClusterPeers()) >= c.running() { // nil unless it leads
				return
			}
		}
		time.Sleep(10 * time.Millisecond) // the server has no event to wait for
	}
	c.t.Fatal("natstest: the cluster has no leader that knows all servers")
}

func (c *Cluster) running() (n int) {
	for _, s := range c.Servers {
		if s.server != nil {
			n++
		}
	}
	return n
}

// Stop ends all servers.
func (c *Cluster) Stop() {
	for _, s := range c.Servers {
		s.Stop()
	}
}

// Start starts the servers that are stopped, and waits for a leader.
func (c *Cluster) Start() {
	c.t.Helper()
	for _, s := range c.Servers {
		if s.server == nil {
			s.Start()
		}
	}
	c.WaitForLeader()
}

// Leader returns the server that leads a stream.
func (c *Cluster) Leader(stream string) *Server {
	c.t.Helper()
	until := time.Now().Add(startLimit)
	for time.Now().Before(until) {
		for _, s := range c.Servers {
			if s.server != nil && s.server.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				return s
			}
		}
		time.Sleep(10 * time.Millisecond) // the server has no event to wait for
	}
	c.t.Fatalf("natstest: the stream %s has no leader", stream)
	return nil
}

func portOf(a net.Addr) int {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		panic(err) // the address of a listener
	}
	return int(at.Port())
}

func freePorts(t T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ports[i] = portOf(l.Addr())
	}
	return ports
}
