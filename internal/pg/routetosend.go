package pg

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

var _ outbound.RouteReader = (*DB)(nil)

// routeToSendSQL reads a route, the settings of its source, and nothing if its tenant is
// closed. Primary keys.
const routeToSendSQL = `
SELECT ` + routeColumns + `, settings
FROM eventhook.route r CROSS JOIN LATERAL (
    SELECT s.settings FROM eventhook.source s JOIN eventhook.tenant t ON t.id = s.tenant_id
    WHERE s.id = r.source_id AND t.status <> 'closed') s
WHERE r.id = $1`

// RouteToSend returns a route with the secrets of its targets, and the retry policy of
// its source; or KindNotFound if there is no such route or its tenant is closed. A
// route that is disabled is returned, too.
func (db *DB) RouteToSend(ctx context.Context, id eventhook.RouteID) (r eventhook.Route, retry eventhook.RetryPolicy, err error) {
	const act = "read a route to send to"
	var settings []byte
	r, err = db.scanRouteRow(rowAnd{db.work.QueryRow(ctx, routeToSendSQL, [16]byte(id)), []any{&settings}})
	if err != nil {
		return r, retry, translate(act, notFound(err, "route"))
	}
	var s eventhook.SourceSettings
	if err := json.Unmarshal(settings, &s); err != nil {
		return r, retry, fmt.Errorf("%s: %w", act, err)
	}
	return r, s.Retry, nil
}

// rowAnd is a row whose last columns are read into more.
type rowAnd struct {
	pgx.Row
	more []any
}

func (r rowAnd) Scan(to ...any) error { return r.Row.Scan(append(to, r.more...)...) }
