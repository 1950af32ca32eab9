package brokers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// maxQueued is the maximum number of commands that wait to be written, and maxPending of commands
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
	waiting atomic.Int64       // since when the oldest pending command has waited for a reply, in Unix ns
	running sync.WaitGroup

	once  sync.Once
	ended chan struct{}
	err   error // why the connection ended; set before ended is closed
}

// redisCommand is a command with its reply.
type redisCommand struct {
	args      redis.Args
	abandoned atomic.Bool // its caller waits no more
	done      chan struct{}
	reply     string
	err       error
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
		if since := time.Unix(0, c.waiting.Load()); len(c.pending) > 0 && c.now().Sub(since) >= maxSilence {
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
		c.waiting.Store(c.now().UnixNano())
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
		c.waiting.Store(c.now().UnixNano())
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
