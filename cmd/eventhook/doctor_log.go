package main

import (
	"context"
	"fmt"

	"github.com/eventhook/eventhook/internal/natslog"
)

// checkIngestLog checks the log of webhooks, if one is configured.
func (d *doctor) checkIngestLog(ctx context.Context) {
	const check = "log of webhooks"
	c := d.config.Ingest.Log
	if !c.IsOn() {
		return
	}
	s, exists, err := natslog.Check(ctx, natslog.Options{Config: c, Name: "eventhook doctor", Now: d.now})
	switch {
	case err != nil:
		d.fail(check, err.Error(), "Check the settings of ingest.log, the servers and their logs; docs/scaling.md names the settings that the servers need.")
	case !exists:
		d.ok(check, "the servers answer; the gateway creates the stream %s when it starts", c.Name)
	case s.Dead > 0:
		d.warn(check, fmt.Sprintf("dead messages, which the database refuses: %d", s.Dead), "Read the dead messages, remove the cause, and send them again, as docs/scaling.md shows.")
	default:
		d.ok(check, "waiting webhooks: %d, with %d of %d bytes", s.Messages, s.Bytes, s.MaxBytes)
	}
}
