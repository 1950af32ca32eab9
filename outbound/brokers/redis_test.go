package brokers_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
	"github.com/eventhook/eventhook/internal/redistest"
)

// redisServer is a server of Redis whose messages are in the stream orders.
type redisServer struct {
	*redistest.Server
	last string // id of the entry that was received last
}

func newRedis(t testing.TB, lines ...string) *redisServer {
	t.Helper()
	return &redisServer{redistest.New(t, append([]string{"requirepass " + secret}, lines...)...), "0"}
}

func (s *redisServer) target(members map[string]any) string {
	return targetJSON(map[string]any{"type": "redis_stream", "url": "redis://" + s.Address(), "stream": "orders",
		"password": secret, "key_path": "body.customer.id"}, members)
}

// do sends a command to a database, and returns its reply.
func (s *redisServer) do(t testing.TB, database int, command string, args ...any) any {
	t.Helper()
	c, err := redis.Dial("tcp", s.Address(), redis.DialPassword(secret), redis.DialDatabase(database))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reply, err := c.Do(command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func (s *redisServer) received(t *testing.T) received {
	t.Helper()
	streams := s.do(t, 0, "XREAD", "BLOCK", 0, "COUNT", 1, "STREAMS", "orders", s.last).([]any)
	entries := must(redis.Values(streams[0].([]any)[1], nil))
	entry := must(redis.Values(entries[0], nil))
	s.last = must(redis.String(entry[0], nil))
	fields := must(redis.StringMap(entry[1], nil))
	return received{ContentType: fields["content-type"], Attributes: cloudAttributes(fields, "ce-"), Data: fields["data"]}
}

func (s *redisServer) stop()  { s.Stop() }
func (s *redisServer) start() { s.Start() }

func TestRedisStream(t *testing.T) {
	testKind(t, kind{server: newRedis(t), wrong: map[string]any{"password": "another"}, hidesKey: true})
}

func TestRedisStreamsOfKeysAndDatabases(t *testing.T) {
	s := newRedis(t)
	f := open(t, s.target(map[string]any{"url": "redis://" + s.Address() + "/3", "stream": "orders:{key}"}))
	a := f.sent(f.delivery("application/json", order))
	if !strings.HasPrefix(a.Excerpt, "stream orders:c-42, entry 1") {
		t.Errorf("got the receipt %q, want the stream and the entry", a.Excerpt)
	}
	if n := s.do(t, 3, "XLEN", "orders:c-42"); n != int64(1) {
		t.Errorf("the stream of the key has %v entries in its database, want 1", n)
	}
}

// The receipt of a stream with a long name is cut between two characters.
func TestALongReceiptIsText(t *testing.T) {
	s := newRedis(t)
	f := open(t, s.target(map[string]any{"stream": strings.Repeat("{key}", 10)}))
	a := f.sent(f.delivery("application/json", `{"customer":{"id":"`+strings.Repeat("é", 100)+`"}}`))
	if !utf8.ValidString(a.Excerpt) || len(a.Excerpt) < eventhook.MaxExcerpt-utf8.UTFMax {
		t.Errorf("got a receipt of %d bytes, %q", len(a.Excerpt), a.Excerpt)
	}
}

func TestRedisStreamsAreTrimmed(t *testing.T) {
	s := newRedis(t, "stream-node-max-entries 10")
	f := open(t, s.target(map[string]any{"max_length": 10}))
	const sent, most = 60, 20
	for range sent {
		f.sent(f.delivery("application/json", order))
	}
	if n := s.do(t, 0, "XLEN", "orders").(int64); n < 10 || n > most {
		t.Errorf("the stream has %d entries, want about 10 of %d", n, sent)
	}
}

func TestRedisRefusals(t *testing.T) {
	const auth, refused = eventhook.ErrorAuth, eventhook.ErrorRefused
	for name, c := range map[string]struct {
		config  string
		prepare []any // a command
		members map[string]any
		class   eventhook.ErrorClass
		part    string
	}{
		"no password":  {"", nil, map[string]any{"password": nil}, auth, "requires a password"},
		"unknown user": {"", nil, map[string]any{"username": "another"}, auth, "does not accept the credentials"},
		"no permission": {"user gateway on >" + secret + " ~others +@all", nil,
			map[string]any{"username": "gateway"}, auth, "may not add"},
		"no AUTH":          {`rename-command AUTH ""`, nil, nil, auth, "does not accept the credentials"},
		"no XADD":          {`rename-command XADD ""`, nil, nil, refused, "has no streams"},
		"another type":     {"", []any{"SET", "orders", "text"}, nil, refused, "another type of value"},
		"no memory":        {"maxmemory 1kb", nil, nil, refused, "no memory left"},
		"a replica":        {"", []any{"REPLICAOF", "127.0.0.1", "1"}, nil, refused, "a replica"},
		"too few replicas": {"min-replicas-to-write 2", nil, nil, refused, "too few replicas"},
		"a cluster":        {"cluster-enabled yes", nil, nil, refused, "cluster"},
		"unknown database": {"databases 4", nil, map[string]any{"database": 4}, refused, "does not select the database 4"},
		"no more entries":  {"", []any{"XADD", "orders", "18446744073709551615-18446744073709551615", "a", "b"}, nil, refused, "the server answered ERR The stream has exhausted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRedis(t, c.config)
			if c.prepare != nil {
				s.do(t, 0, c.prepare[0].(string), c.prepare[1:]...)
			}
			members := map[string]any{}
			for member, value := range c.members {
				if member == "database" {
					member, value = "url", fmt.Sprintf("redis://%s/%v", s.Address(), value)
				}
				members[member] = value
			}
			f := open(t, s.target(members))
			f.failsWith(c.class, c.part)
		})
	}
}

func TestRedisWithTooManyClients(t *testing.T) {
	s := newRedis(t, "maxclients 1")
	c := must(redis.Dial("tcp", s.Address()))
	defer c.Close()
	if _, err := c.Do("AUTH", secret); err != nil {
		t.Fatal(err)
	}
	for _, password := range []any{secret, nil} {
		open(t, s.target(map[string]any{"password": password})).failsWith(eventhook.ErrorRefused, "too many connections")
	}
}

func TestRedisWithTLS(t *testing.T) {
	files := certfiletest.New(t, "redis", time.Now().Add(time.Hour))
	s := newRedis(t)
	_, port, _ := strings.Cut(s.Address(), ":")
	c := must(redis.Dial("tcp", s.Address(), redis.DialPassword(secret)))
	defer c.Close()
	for _, pair := range [][]any{{"port", 0}, {"tls-cert-file", files.Cert}, {"tls-key-file", files.Key},
		{"tls-auth-clients", "no"}, {"tls-port", port}} {
		if _, err := c.Do("CONFIG", append([]any{"SET"}, pair...)...); err != nil {
			t.Fatalf("%v: %v", pair, err)
		}
	}
	members := map[string]any{"url": "rediss://" + s.Address(), "ca": string(must(os.ReadFile(files.Cert)))}
	f := open(t, s.target(members))
	f.sent(f.delivery("application/json", order))
	members["ca"] = nil
	open(t, s.target(members)).fails(eventhook.ErrorTLS)
	members["url"] = "redis://" + s.Address()
	open(t, s.target(members)).fails(eventhook.ErrorClosed)
}

func TestAPausedRedisCostsATimeout(t *testing.T) {
	s := newRedis(t)
	f := open(t, s.target(map[string]any{"timeout_seconds": 1}))
	f.sent(f.delivery("application/json", order))
	s.Pause()
	f.failsWith(eventhook.ErrorTimeout, "no acknowledgement from 127.0.0.1:")
	s.Resume()
	f.sent(f.delivery("application/json", order))
}
