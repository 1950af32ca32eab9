package brokers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

const (
	// maxQueued is the maximum number of commands that wait to be written, and maxPending of those
	// that wait for their replies.
	maxQueued, maxPending = slots, 16 * slots
	// maxSilence is the time after which a server that replies to nothing is given up.
	maxSilence = 5 * time.Second
)

// redisConnection adds entries to streams. CloudEvents has no binding for Redis: the fields of an entry
// are content-type, data, and ce- with the name of each attribute.
//
// Commands are pipelined: one goroutine writes them, and another one reads the replies, which come in
// the same order.
type redisConnection struct {
	conn    redis.Conn
	now     func() time.Time
	queue   chan *redisCommand // to the writer
	pending chan *redisCommand // from the writer to the reader
	silent  atomic.Int64       // since when the oldest pending command has waited without a reply, in Unix ns
	running sync.WaitGroup

	once  sync.Once
	ended chan struct{}
	err   error // why the connection ended; set before ended is closed
}

// redisCommand is a command with its reply.
type redisCommand struct {
	args      redis.Args
	abandoned atomic.Bool // nobody waits for it any more
	done      chan struct{}
	reply     string
	err       error
}

func (b *Brokers) openRedisStream(ctx context.Context, s *targets.RedisStream) (Connection, error) {
	var secure *tls.Config
	if s.UsesTLS() {
		secure = b.tlsConfig(s.CA)
	}
	network, err := b.dial(ctx, s.Address(), secure)
	if err != nil {
		return nil, err
	}
	conn := redis.NewConn(&smallReplies{Conn: network}, 0, 0)
	if err := within(ctx, network, func() error { return greet(conn, b.Name, s) }); err != nil {
		_ = conn.Close()
		return nil, err
	}
	c := &redisConnection{conn: conn, now: b.Now, queue: make(chan *redisCommand, maxQueued),
		pending: make(chan *redisCommand, maxPending), ended: make(chan struct{})}
	c.running.Go(c.write)
	c.running.Go(c.read)
	return c, nil
}

// greet authenticates and selects the database.
func greet(c redis.Conn, name string, s *targets.RedisStream) error {
	if s.Password != "" {
		login := redis.Args{}
		if s.Username != "" {
			login = login.Add(s.Username)
		}
		if _, err := c.Do("AUTH", login.Add(s.Password)...); err != nil {
			return greetingFailure(err, failuref(eventhook.ErrorAuth, "the server does not accept the credentials"))
		}
	}
	if n := s.Database(); n != 0 {
		if _, err := c.Do("SELECT", n); err != nil {
			return greetingFailure(err, failuref(eventhook.ErrorRefused, "the server does not select the database %d", n))
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
func greetingFailure(err error, other *Failure) error {
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

// add queues a command and waits for its reply.
func (c *redisConnection) add(ctx context.Context, x *redisCommand) (string, error) {
	select {
	case c.queue <- x:
	case <-c.ended:
		return "", c.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case <-x.done:
		return x.reply, x.err
	case <-c.ended:
		select {
		case <-x.done: // the last reply
			return x.reply, x.err
		default:
			return "", c.err
		}
	case <-ctx.Done():
		x.abandoned.Store(true)
		if since := time.Unix(0, c.silent.Load()); len(c.pending) > 0 && c.now().Sub(since) >= maxSilence {
			c.end(context.DeadlineExceeded) // the network may be cut, and TCP would notice it much later
		}
		return "", ctx.Err()
	}
}

// write writes queued commands, several at once where it can, until the connection ends.
func (c *redisConnection) write() {
	for {
		select {
		case x := <-c.queue:
			if x.abandoned.Load() {
				continue
			}
			if err := c.writeOne(x); err != nil {
				c.end(err)
				return
			}
		case <-c.ended:
			return
		}
	}
}

// writeOne writes a command. It passes the command to the reader first, so that the reply never comes
// before it.
func (c *redisConnection) writeOne(x *redisCommand) error {
	if len(c.pending) == 0 {
		c.silent.Store(c.now().UnixNano())
	}
	select {
	case c.pending <- x:
	default: // the reader waits for replies to commands that may be in the buffer
		if err := c.conn.Flush(); err != nil {
			return err
		}
		select {
		case c.pending <- x:
		case <-c.ended:
			return c.err
		}
	}
	args := x.args
	x.args = nil // so that the data is not kept until the reply
	if err := c.conn.Send("XADD", args...); err != nil {
		return err
	}
	if len(c.queue) > 0 {
		return nil
	}
	return c.conn.Flush()
}

// read passes replies to their commands until the connection ends.
func (c *redisConnection) read() {
	for {
		reply, err := redis.String(c.conn.Receive())
		if fatal := c.conn.Err(); fatal != nil {
			c.end(fatal)
			return
		}
		c.silent.Store(c.now().UnixNano())
		select {
		case x := <-c.pending:
			x.reply, x.err = reply, err
			close(x.done)
		default:
			c.end(errUnexpected)
			return
		}
	}
}

// end ends the connection for a reason. Only the first reason counts.
func (c *redisConnection) end(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.ended)
		_ = c.conn.Close()
	})
}

// IsClosed implements Connection.
func (c *redisConnection) IsClosed() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Close implements Connection.
func (c *redisConnection) Close() {
	c.end(errClosed)
	c.running.Wait()
}
