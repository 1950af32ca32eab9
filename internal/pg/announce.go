package pg

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/eventhook/eventhook"
)

// announceSQL stores events of the gateway's own. Nothing is owed for them:
// they are delivered as they are written.
const announceSQL = `
WITH sent AS (
    SELECT * FROM unnest($3::uuid[], $4::text[], $5::bytea[]) AS u (id, event_type, body)
), stored AS (
    INSERT INTO eventhook.event (id, tenant_id, status, origin, event_type, content_type, body_size, request_id, correlation_id, processed_at)
    SELECT id, $1, 'delivered', 'system', event_type, 'application/json', length(body), $6, $2, $7 FROM sent
)
INSERT INTO eventhook.event_payload (event_id, headers, body)
SELECT id, 'Content-Type: application/json', body FROM sent`

// announcement is the body of an event about a resource.
type announcement struct {
	Tenant   string          `json:"tenant"`
	Resource announcedObject `json:"resource"`
	Actor    announcedObject `json:"actor"`
}

type announcedObject struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
}

// announce makes an event of each change that was recorded and not yet
// written, with its action as the type.
func (m *manager) announce(ctx context.Context) error {
	var types []string
	var bodies [][]byte
	now := m.db.now()
	ids := uuids(idsInOrder[eventhook.Event](now, len(m.entries)))
	for _, e := range m.entries {
		actor := announcedObject{Type: string(e.Actor.Type), Name: e.Actor.Name}
		if !e.Actor.KeyID.IsZero() {
			actor.ID = e.Actor.KeyID.String()
		}
		body, err := json.Marshal(announcement{m.tenant.Slug, announcedObject{e.ResourceType, e.ResourceID, e.ResourceName}, actor})
		if err != nil {
			return fmt.Errorf("announce %s: %w", e.Action, err)
		}
		types, bodies = append(types, e.Action), append(bodies, body)
	}
	_, err := m.tx.Exec(ctx, announceSQL, [16]byte(m.tenant.ID), textArg(m.correlation), ids, types, bodies, textArg(m.by.RequestID), now)
	return err
}
