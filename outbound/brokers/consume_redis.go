package brokers

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
)

const (
	redisWait = 5 * time.Second // of one command for entries that are not there yet
	// redisSilence is how long the server may take to answer in addition.
	redisSilence = 10 * time.Second
	// maxRedisCount is the maximum number of entries of a command.
	maxRedisCount = 256
	// maxRedisFields is the maximum number of names and values of an entry, on average.
	maxRedisFields = 200
)

// redisReceiver consumes a stream as one consumer of a group. The name of the consumer is derived from the source, so
// that the next instance continues with the entries that the last one has taken and not acknowledged.
//
// An entry that the targets of this gateway have added has the fields content-type, data, and ce- with the
// attributes. The data of other entries is the field data, or payload, if they have one, and else a JSON object of all
// fields.
type redisReceiver struct {
	network net.Conn
	conn    redis.Conn
	replies *smallReplies
	credit  *credit
	limits  consumers.Limits
	names   struct{ stream, group, consumer string }

	// next is the entry behind which pending entries are read, which were taken and not acknowledged. ">" means
	// that all of them were read, and new entries are taken.
	next string
	pace pace
}

func (b *Brokers) consumeRedis(ctx context.Context, s *consumers.RedisStream, p consumers.Place) (receiver, error) {
	r := &redisReceiver{credit: newCredit(minCredit), limits: p.Limits, next: "0",
		pace: newPace(p.Limits.Bytes/2, maxRedisCount)}
	r.names.stream, r.names.group, r.names.consumer = s.Stream, s.Group, "eventhook-"+p.Source.String()
	var err error
	if r.network, err = b.dialRedis(ctx, &s.RedisServer, r.credit); err != nil {
		return nil, err
	}
	r.replies = &smallReplies{Conn: r.network}
	r.conn = redis.NewConn(r.replies, 0, 0)
	err = within(ctx, r.network, func() error {
		if err := greet(r.conn, b.Name, &s.RedisServer); err != nil {
			return err
		}
		return r.createGroup(s.StartAt)
	})
	if err != nil {
		r.close()
		return nil, redisConsumerFailure(err)
	}
	r.replies.max = p.Limits.Bytes / 2 //nolint:mnd // see Limits
	return r, nil
}

// createGroup creates the group if it does not exist. Credentials that may not do that suffice if it exists.
func (r *redisReceiver) createGroup(startAt string) error {
	start := "0"
	if startAt == consumers.Newest {
		start = "$"
	}
	_, err := r.conn.Do("XGROUP", "CREATE", r.names.stream, r.names.group, start)
	switch {
	case err == nil, !isReply(err):
		return err
	case strings.HasPrefix(err.Error(), "BUSYGROUP"), strings.HasPrefix(err.Error(), "NOPERM"):
		return nil
	case strings.Contains(err.Error(), "requires the key to exist"):
		return refusedf("the stream does not exist")
	}
	return err
}

// receive takes pending entries first, and then waits for new ones. It begins with one entry, because no
// command limits the bytes of the answer.
func (r *redisReceiver) receive(ctx context.Context, max int) ([]*consumers.Message, error) {
	for {
		list, err := r.read(ctx, min(r.pace.count, max))
		switch {
		case err != nil:
			return nil, redisConsumerFailure(err)
		case len(list) > 0:
			return list, nil
		case r.next != ">":
			r.next = ">" // there are no further pending entries
		}
	}
}

func (r *redisReceiver) read(ctx context.Context, count int) ([]*consumers.Message, error) {
	const outerLists, perEntry = 16, 5
	r.credit.Store(int64(r.limits.Bytes))
	r.replies.lists = outerLists + count*(perEntry+maxRedisFields)
	limited, cancel := context.WithTimeout(ctx, redisWait+redisSilence)
	defer cancel()
	args := redis.Args{"GROUP", r.names.group, r.names.consumer, "COUNT", count}
	if r.next == ">" {
		args = args.Add("BLOCK", redisWait.Milliseconds())
	}
	var reply any
	err := within(limited, r.network, func() (err error) {
		reply, err = r.conn.Do("XREADGROUP", args.Add("STREAMS", r.names.stream, r.next)...)
		return err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if count == 1 && errors.Is(err, errTooMuch) { // an entry has several fields
		err = errTooLarge
	}
	if err != nil || reply == nil {
		return nil, err
	}
	list, err := r.messages(reply)
	r.pace.adjust(count, list)
	if len(list) > 0 && r.next != ">" {
		r.next = list[len(list)-1].Handle.(string) //nolint:forcetypeassert // of this receiver
	}
	return list, err
}

// messages reads the answer: a list of streams, each with a list of entries, each with its id and a list of
// names and values. The names and values of an entry that was deleted are nil.
func (r *redisReceiver) messages(reply any) (list []*consumers.Message, err error) {
	streams, err := redis.Values(reply, nil)
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	stream, err := redis.Values(streams[0], nil)
	if err != nil || len(stream) != 2 { //nolint:mnd // its name and its entries
		return nil, errUnexpected
	}
	entries, err := redis.Values(stream[1], nil)
	if err != nil {
		return nil, errUnexpected
	}
	for _, e := range entries {
		entry, err := redis.Values(e, nil)
		if err != nil || len(entry) != 2 { //nolint:mnd // its id and its fields
			return nil, errUnexpected
		}
		id, err := redis.String(entry[0], nil)
		if err != nil {
			return nil, errUnexpected
		}
		list = append(list, r.message(id, entry[1]))
	}
	return list, nil
}

func (r *redisReceiver) message(id string, raw any) *consumers.Message {
	m := &consumers.Message{Subject: r.names.stream}
	if fields, err := redis.ByteSlices(raw, nil); err == nil && len(fields)%2 == 0 {
		m = redisMessage(r.names.stream, fields)
	} else {
		m.Unreadable = "the entry was deleted from the stream"
	}
	m.Position, m.Handle = r.names.stream+"/"+id, id
	return m
}

func redisMessage(stream string, fields [][]byte) *consumers.Message {
	var headers []consumers.Header
	var data []byte
	hasData := false
	for i := 0; i+1 < len(fields); i += 2 {
		name := string(fields[i])
		if !hasData && (name == "data" || name == "payload") {
			data, hasData = fields[i+1], true
			continue
		}
		headers = append(headers, consumers.Header{Name: name, Value: string(fields[i+1])})
	}
	if hasData {
		return message(stream, data, headers)
	}
	m := message(stream, redisObject(fields), nil)
	m.ContentType = "application/json"
	return m
}

// settle acknowledges messages, also the refused ones: Redis has no dead letters.
func (r *redisReceiver) settle(ctx context.Context, done []*consumers.Message) error {
	ids := redis.Args{r.names.stream, r.names.group}
	for _, m := range done {
		ids = ids.Add(m.Handle)
	}
	r.credit.Store(minCredit)
	err := within(ctx, r.network, func() error {
		_, err := r.conn.Do("XACK", ids...)
		return err
	})
	return redisConsumerFailure(err)
}

// lag implements receiver: it would need another command.
func (*redisReceiver) lag(context.Context) (int64, bool) { return 0, false }

func (r *redisReceiver) close() { _ = r.conn.Close() }

func redisConsumerFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case !isReply(err):
		return err
	case strings.HasPrefix(err.Error(), "NOGROUP"):
		return refusedf("the stream or the consumer group does not exist any more")
	case strings.HasPrefix(err.Error(), "NOPERM"):
		return Errorf(eventhook.ErrorAuth, "the credentials may not consume the stream (XREADGROUP and XACK)")
	case strings.HasPrefix(err.Error(), "UNBLOCKED"):
		return refusedf("the stream does not exist any more")
	case strings.HasPrefix(err.Error(), "ERR unknown command"):
		return refusedf("the server has no consumer groups (XREADGROUP)")
	}
	return redisFailure(err)
}

// redisObject returns the fields of an entry as a JSON object.
func redisObject(fields [][]byte) []byte {
	object := make(map[string]string, len(fields)/2) //nolint:mnd // names and values
	for i := 0; i+1 < len(fields); i += 2 {
		object[string(fields[i])] = string(fields[i+1])
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil // cannot happen: texts can be encoded
	}
	return raw
}
