package redistest_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/eventhook/eventhook/internal/redistest"
)

func TestAServerKeepsItsDataWhileItIsStopped(t *testing.T) {
	s := redistest.New(t, "requirepass secret")
	if got := do(t, s, "SET", "k", "v"); got != "OK" {
		t.Fatalf("SET: got %q", got)
	}
	s.Stop()
	if c, err := redis.Dial("tcp", s.Address()); err == nil {
		_ = c.Close()
		t.Error("the stopped server accepts connections")
	}
	s.Start()
	if got := do(t, s, "GET", "k"); got != "v" {
		t.Errorf("GET: got %q, want v", got)
	}
}

func do(t *testing.T, s *redistest.Server, command string, args ...any) string {
	t.Helper()
	c, err := redis.Dial("tcp", s.Address(), redis.DialPassword("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text, err := redis.String(c.Do(command, args...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
