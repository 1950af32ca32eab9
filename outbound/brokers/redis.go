package brokers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

func (b *Brokers) openRedisStream(ctx context.Context, s *targets.RedisStream) (Connection, error) {
	network, err := b.dialRedis(ctx, &s.RedisServer, newCredit(minCredit))
	if err != nil {
		return nil, err
	}
	conn := redis.NewConn(&smallReplies{Conn: network}, 0, 0)
	if err := within(ctx, network, func() error { return greet(conn, b.Name, &s.RedisServer) }); err != nil {
		_ = conn.Close()
		return nil, err
	}
	c := &redisConnection{conn: conn, now: b.Now, queue: make(chan *redisCommand, maxQueued),
		pending: make(chan *redisCommand, maxPending), ended: make(chan struct{})}
	c.running.Go(c.write)
	c.running.Go(c.read)
	return c, nil
}

func (b *Brokers) dialRedis(ctx context.Context, s *targets.RedisServer, credit *credit) (net.Conn, error) {
	var secure *tls.Config
	if s.UsesTLS() {
		secure = b.TLSConfig(s.CA)
	}
	return b.dial(ctx, s.Address(), secure, credit)
}

// greet authenticates and selects the database.
func greet(c redis.Conn, name string, s *targets.RedisServer) error {
	if s.Password != "" {
		login := redis.Args{}
		if s.Username != "" {
			login = login.Add(s.Username)
		}
		if _, err := c.Do("AUTH", login.Add(s.Password)...); err != nil {
			return greetingFailure(err, Errorf(eventhook.ErrorAuth, "the server does not accept the credentials"))
		}
	}
	if n := s.Database(); n != 0 {
		if _, err := c.Do("SELECT", n); err != nil {
			return greetingFailure(err,
				Errorf(eventhook.ErrorRefused, "the server does not select the database %d", n))
		}
	}
	_, err := c.Do("CLIENT", "SETNAME", strings.ReplaceAll(name, " ", "-"))
	switch known := knownRedisFailure(err); {
	case !isReply(err):
		return err
	case known == nil, known == redisReplies["NOPERM"]:
		return nil // the name is not important
	default:
		return known
	}
}

// greetingFailure describes an error of the greeting. It repeats no answer of the server, because some
// servers answer with the command, and so with the password.
func greetingFailure(err error, other *Error) error {
	if known := knownRedisFailure(err); known != nil {
		return known
	}
	if isReply(err) {
		return other
	}
	return err
}

// isReply reports whether an error is an answer of the server.
func isReply(err error) bool {
	_, is := errors.AsType[redis.Error](err)
	return is
}

// Publish implements Connection.
func (c *redisConnection) Publish(ctx context.Context, b targets.Broker, m targets.CloudEvent) (string, error) {
	s := b.(*targets.RedisStream) //nolint:forcetypeassert // the connection was opened for it
	stream := s.StreamOf(m.Key)
	args := redis.Args{stream}
	if s.MaxLength > 0 {
		args = args.Add("MAXLEN", "~", s.MaxLength)
	}
	args = args.Add("*", "content-type", m.ContentType)
	for _, a := range m.Attributes {
		args = args.Add("ce-"+a.Name, a.Value)
	}
	entry, err := c.add(ctx, &redisCommand{args: args.Add("data", m.Data), done: make(chan struct{})})
	if err != nil {
		return "", redisFailure(err)
	}
	return fmt.Sprintf("stream %s, entry %s", stream, eventhook.SanitizeLabel(entry)), nil
}
