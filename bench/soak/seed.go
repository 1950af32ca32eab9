package soak

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/seed"
)

// settledBody is the body of the seeded events. It has no number, so that no count finds it.
var settledBody = []byte(`{"ref":"refs/heads/main","note":"an event that was settled before the run"}`)

// seed inserts the settled events, with a delivery each, into the oldest day that retention keeps.
func (r *run) seed(ctx context.Context) error {
	if r.Settled == 0 {
		return nil
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	const batch = 500_000
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -keepDays)
	if err := createDay(ctx, conn, day); err != nil {
		return err
	}
	id, err := eventhook.ParseID[eventhook.Subscription](r.subs[good].id)
	if err != nil {
		return err
	}
	var owner [16]byte
	if err := conn.QueryRow(ctx, `SELECT id FROM eventhook.tenant WHERE slug = $1`, tenant).Scan(&owner); err != nil {
		return err
	}
	for done := 0; done < r.Settled; {
		n := min(batch, r.Settled-done)
		done += n
		rows := seed.Deliveries{Subscription: id, Events: n, PerEvent: 1, At: day.Add(time.Duration(done+1) * time.Millisecond)}
		if err := seed.InsertDeliveries(ctx, conn, owner, published, settledBody, rows); err != nil {
			return err
		}
		r.printf("seeded %d of %d settled events", done, r.Settled)
	}
	return nil
}
