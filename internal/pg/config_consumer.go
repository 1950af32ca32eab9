package pg

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/eventhook/eventhook"
)

// sealConsume returns where a source consumes messages, as it is stored.
func (m *mutation) sealConsume(ctx context.Context, s eventhook.Source) (c consumed, err error) {
	if s.Consume == nil {
		return c, nil
	}
	if c.Consume, err = json.Marshal(s.Consume); err != nil || s.Consume.Secrets.IsZero() {
		return c, err
	}
	sealed, err := m.seal(ctx, sourceConsumeSecrets, s.ID, s.TenantID, s.Consume.Secrets.Reveal())
	c.ConsumeSecrets = &sealed
	return c, err
}

// keepsLostSecrets reports whether an update leaves the broker of a source as it is, whose secrets, if it has
// any, do not open now. They stay stored, for the case that their key comes back.
func keepsLostSecrets(have, want eventhook.Source) bool {
	return have.Consume != nil && want.Consume != nil && want.Consume.Secrets.IsZero() &&
		have.Consume.Type == want.Consume.Type && bytes.Equal(have.Consume.Settings, want.Consume.Settings)
}

// countConsumersSQL reads an index on the tenant.
const countConsumersSQL = `SELECT count(*) FROM eventhook.source_consumer WHERE tenant_id = $1`

// setConsumer creates or deletes the lease of a source that begins or ceases to consume messages. The
// error is KindConflict if the tenant has too many such sources. have is nil for a new source.
func (m *mutation) setConsumer(ctx context.Context, have, want *eventhook.Source) error {
	did, does := have != nil && have.Consume != nil, want.Consume != nil
	if did == does {
		return nil
	}
	if m.consumers == nil {
		m.consumers = new(int)
		if err := m.tx.QueryRow(ctx, countConsumersSQL, [16]byte(m.tenant.ID)).Scan(m.consumers); err != nil {
			return err
		}
	}
	if did {
		*m.consumers--
		return m.exec(ctx, `DELETE FROM eventhook.source_consumer WHERE source_id = $1`, [16]byte(want.ID))
	}
	if *m.consumers++; *m.consumers > eventhook.MaxConsumers {
		return &eventhook.Error{Kind: eventhook.KindConflict,
			Message: fmt.Sprintf("The tenant would have more than %d sources that consume messages, the maximum.", eventhook.MaxConsumers)}
	}
	return m.exec(ctx, `INSERT INTO eventhook.source_consumer (source_id, tenant_id, lease_until, since) VALUES ($1, $2, now(), now())`,
		[16]byte(want.ID), [16]byte(m.tenant.ID))
}
