package temporal_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/testing/freeport"
	schema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

// Namespaces of the server. Workflows in guarded start with the API key only.
const (
	namespace = "acme"
	guarded   = "guarded"
)

// temporalServer is Temporal's own server in this process: all its services, on a SQLite file, so that
// its workflows survive a restart. Its clients need a certificate.
type temporalServer struct {
	t       *testing.T
	address string
	pair    pair
	file    config.SQL
	key     atomic.Value // the API key, a string
	running temporal.Server
}

// pair is a certificate of this machine that signs itself, and its key, in PEM.
type pair struct{ certificate, key string }

func newPair(t *testing.T) pair {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	inPEM := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return pair{inPEM("CERTIFICATE", raw), inPEM("PRIVATE KEY", encoded)}
}

func startTemporal(t *testing.T) *temporalServer {
	t.Helper()
	s := &temporalServer{t: t, address: fmt.Sprintf("127.0.0.1:%d", freeport.MustGetFreePort()), pair: newPair(t)}
	s.key.Store("")
	s.file = config.SQL{PluginName: sqlite.PluginName, DatabaseName: filepath.Join(t.TempDir(), "temporal.db"), ConnectAttributes: map[string]string{"mode": "rwc"}}
	must(t, schema.SetupSchema(&s.file))
	for _, name := range []string{namespace, guarded} {
		one, err := schema.NewNamespaceConfig("active", name, false, nil)
		must(t, err)
		must(t, schema.CreateNamespaces(&s.file, one))
	}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// start starts the server, at the address that it had before.
func (s *temporalServer) start() {
	s.t.Helper()
	var err error
	s.running, err = temporal.NewServer(temporal.WithConfig(s.config()), temporal.ForServices(temporal.DefaultServices), temporal.WithLogger(log.NewNoopLogger()),
		temporal.WithAuthorizer(authorizer{s}), temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claimMapper{} }),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler))
	must(s.t, err)
	must(s.t, s.running.Start())
}

// stop ends the server, as an outage. Its workflows stay in the file.
func (s *temporalServer) stop() {
	if s.running == nil {
		return
	}
	if err := s.running.Stop(); err != nil {
		s.t.Logf("stop the server: %v", err)
	}
	s.running = nil
}

func (s *temporalServer) config() *config.Config {
	_, port, _ := net.SplitHostPort(s.address) // is valid
	store := s.file
	certificate, key := base64.StdEncoding.EncodeToString([]byte(s.pair.certificate)), base64.StdEncoding.EncodeToString([]byte(s.pair.key))
	c := &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: "127.0.0.1"},
			TLS: config.RootTLS{
				Frontend:     config.GroupTLS{Server: config.ServerTLS{CertData: certificate, KeyData: key, ClientCAData: []string{certificate}, RequireClientAuth: true}},
				SystemWorker: config.WorkerTLS{CertData: certificate, KeyData: key, Client: config.ClientTLS{ServerName: "localhost", RootCAData: []string{certificate}}},
			},
		},
		Persistence: config.Persistence{DefaultStore: "sqlite", VisibilityStore: "sqlite", NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{"sqlite": {SQL: &store}}},
		ClusterMetadata: &cluster.Config{FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
			ClusterInformation: map[string]cluster.ClusterInformation{"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: s.address}}},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: s.address},
		Archival:            config.Archival{History: config.HistoryArchival{State: "disabled"}, Visibility: config.VisibilityArchival{State: "disabled"}},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History: config.HistoryArchivalNamespaceDefaults{State: "disabled"}, Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"}}},
		Services: map[string]config.Service{},
	}
	for _, service := range temporal.DefaultServices {
		rpc := config.RPC{GRPCPort: freeport.MustGetFreePort(), MembershipPort: freeport.MustGetFreePort(), BindOnLocalHost: true}
		if service == "frontend" {
			_, _ = fmt.Sscan(port, &rpc.GRPCPort)
		}
		c.Services[service] = config.Service{RPC: rpc}
	}
	return c
}

// authorizer lets only callers with the API key start workflows in guarded.
type authorizer struct{ s *temporalServer }

func (a authorizer) Authorize(_ context.Context, caller *authorization.Claims, target *authorization.CallTarget) (authorization.Result, error) {
	isStart := strings.HasSuffix(target.APIName, "/StartWorkflowExecution")
	if target.Namespace == guarded && isStart && (caller == nil || caller.Subject != "Bearer "+a.s.key.Load().(string)) {
		return authorization.Result{Decision: authorization.DecisionDeny}, nil
	}
	return authorization.Result{Decision: authorization.DecisionAllow}, nil
}

// claimMapper names callers by their tokens.
type claimMapper struct{}

func (claimMapper) GetClaims(info *authorization.AuthInfo) (*authorization.Claims, error) {
	return &authorization.Claims{Subject: info.AuthToken}, nil
}

// connect returns a client of the SDK. It waits until the server is ready.
func (s *temporalServer) connect(namespace string) client.Client {
	s.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.pair.certificate))
	own, err := tls.X509KeyPair([]byte(s.pair.certificate), []byte(s.pair.key))
	must(s.t, err)
	var c client.Client
	until(s.t, "Temporal is ready", func() bool {
		c, err = client.Dial(client.Options{HostPort: s.address, Namespace: namespace, Logger: discard{},
			ConnectionOptions: client.ConnectionOptions{TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{own}}}})
		return err == nil
	})
	s.t.Cleanup(c.Close)
	return c
}

// discard is a logger of the SDK.
type discard struct{}

func (discard) Debug(string, ...any) {}
func (discard) Info(string, ...any)  {}
func (discard) Warn(string, ...any)  {}
func (discard) Error(string, ...any) {}

var _ sdklog.Logger = discard{}
