package natslog_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/natstest"
)

// newTaggedCluster starts three servers with the tags node-1 to node-3.
func newTaggedCluster(t *testing.T) *natstest.Cluster {
	options := make([]server.Options, 3)
	for i := range options {
		name := fmt.Sprintf("node-%d", i+1)
		options[i] = server.Options{ServerName: name, JetStream: true, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 64 << 30,
			Cluster: server.ClusterOpts{Name: "natstest"}}
		options[i].Tags.Add(name)
	}
	return natstest.NewClusterOf(t, options)
}

// The server that stops leads another stream than that of the webhooks, and the instance was connected to it.
func TestALogStaysReadyWhileAnotherStreamHasNoLeader(t *testing.T) {
	c := newTaggedCluster(t)
	f := setUp(t, c.URL(), 3)
	_, stop := f.open() // creates the streams
	stop()
	leader := c.Leader(f.config.Name)
	other := 0
	if c.Servers[other] == leader {
		other = 1
	}
	f.config.URL = c.Servers[other].URL()
	l, _ := f.open()
	js := natstest.Connect(t, leader.URL())
	dead := f.config.Name + "_DEAD"
	if err := js.DeleteStream(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: dead, Subjects: []string{f.config.Name + ".dead"}, Replicas: 1,
		Placement: &jetstream.Placement{Tags: []string{fmt.Sprintf("node-%d", other+1)}}}); err != nil {
		t.Fatal(err)
	}
	c.Servers[other].Stop()
	var list []eventhook.EventID
	f.sink.wait(t, "50 webhooks are accepted", func() bool {
		if e := event(`{}`); f.append(l, e) == nil {
			list = append(list, e.ID)
		}
		return len(list) >= 50
	})
	f.hasOnce(list)
}

// The servers were replaced by new ones, or a person has deleted the streams.
func TestStreamsThatWereDeletedAreCreatedAgain(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	l, _ := f.open()
	js := natstest.Connect(t, f.url)
	for _, name := range []string{f.config.Name, f.config.Name + "_DEAD", "KV_" + f.config.Name + "_SOURCES"} {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	var list []eventhook.EventID
	f.sink.wait(t, "a webhook is accepted", func() bool {
		e := event(`{}`)
		if f.append(l, e) == nil {
			list = append(list, e.ID)
		}
		return len(list) > 0
	})
	f.hasOnce(list)
	f.sink.wait(t, "the other parts are there", func() bool {
		_, noDead := js.Stream(t.Context(), f.config.Name+"_DEAD")
		_, noBucket := js.KeyValue(t.Context(), f.config.Name+"_SOURCES")
		return noDead == nil && noBucket == nil
	})
}

func TestALogWithoutALeaderSaysSo(t *testing.T) {
	c := natstest.NewCluster(t, 3)
	f := setUp(t, c.URL(), 3)
	_, stop := f.open()
	stop()
	c.Servers[1].Stop()
	c.Servers[2].Stop()
	log := &lines{}
	f.run(f.connect(slog.New(slog.NewTextHandler(log, nil))))
	f.sink.wait(t, "the log says that there is no leader", func() bool { return log.have("no leader answers at present") })
	if log.have("bytes") {
		t.Errorf("got %s, want nothing about bytes", log.text.String())
	}
}

func TestALogThatDoesNotFitSaysHowManyBytesItTakes(t *testing.T) {
	f := setUp(t, natstest.New(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 }).URL(), 1)
	log := &lines{}
	f.run(f.connect(slog.New(slog.NewTextHandler(log, nil))))
	f.sink.wait(t, "the log says how many bytes it takes", func() bool { return log.have("may take 67108864 bytes") })
}
