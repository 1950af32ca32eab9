package natstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook/internal/natstest"
)

func TestAClusterKeepsMessagesWithoutItsLeader(t *testing.T) {
	c := natstest.NewCluster(t, 3)
	js := natstest.Connect(t, c.URL())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "s.1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	old := c.Leader("S")
	old.Stop()
	if c.Leader("S") == old {
		t.Error("the stopped server leads the stream")
	}
	if _, err := js.Publish(ctx, "s.2", []byte("y"), jetstream.WithRetryAttempts(20)); err != nil {
		t.Fatal(err)
	}
	c.Start()
	s, err := js.Stream(ctx, "S")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(ctx)
	if err != nil || info.State.Msgs != 2 {
		t.Errorf("got %+v, %v; want 2 messages", info, err)
	}
}
