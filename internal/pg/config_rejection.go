package pg

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// maxRejectionsPerSource is how many rejections of a source are stored.
const maxRejectionsPerSource = 50

// lockSourcesSQL prevents sources from being deleted until the commit. It skips a source that
// is being deleted, so that a deletion never waits here. Primary key.
const lockSourcesSQL = `
SELECT id FROM eventhook.source WHERE id = ANY($1::uuid[]) FOR KEY SHARE SKIP LOCKED`

// countRejectionsSQL adds counts in the order of their keys, so that instances wait for each
// other and cannot deadlock. Primary key.
const countRejectionsSQL = `
INSERT INTO eventhook.rejection_count AS c (source_id, reason, count, first_at, last_at)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::int8[], $4::timestamptz[], $5::timestamptz[]) AS u (source_id, reason, count, first_at, last_at)
ORDER BY source_id, reason COLLATE "C"
ON CONFLICT (source_id, reason) DO UPDATE
    SET count = c.count + excluded.count,
        first_at = least(c.first_at, excluded.first_at), last_at = greatest(c.last_at, excluded.last_at)`

const insertRejectionsSQL = `
INSERT INTO eventhook.rejection (id, source_id, outcome, reason, detail, method, client_address, header_names, body_size, body_sha256)
SELECT id, source_id, outcome, reason, detail, method, nullif(client_address, ''), header_names::json, nullif(body_size, -1), body_sha256
FROM unnest(@ids::uuid[], @sources::uuid[], @outcomes::text[], @reasons::text[], @details::text[], @methods::text[],
        @addresses::text[], @headers::text[], @sizes::int8[], @hashes::bytea[])
    AS u (id, source_id, outcome, reason, detail, method, client_address, header_names, body_size, body_sha256)
ON CONFLICT (id) DO NOTHING`

// pruneRejectionsSQL deletes all but the newest rejections of some sources. It skips rows that
// another instance is deleting. Index on the source and the id.
const pruneRejectionsSQL = `
WITH over AS MATERIALIZED (
    SELECT old.id FROM unnest($1::uuid[]) AS s (id)
    CROSS JOIN LATERAL (SELECT r.id FROM eventhook.rejection r WHERE r.source_id = s.id ORDER BY r.id DESC OFFSET $2) old
), locked AS MATERIALIZED (
    SELECT id FROM eventhook.rejection WHERE id = ANY(ARRAY(SELECT id FROM over)) FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.rejection WHERE id = ANY(ARRAY(SELECT id FROM locked))`

// RecordRejections stores rejected requests in one transaction: the newest 50 rejections of
// each source, and all counts. It ignores rejections and counts of sources that do not exist
// any more. A rejection that is stored already is not changed. Instances that record
// concurrently may leave more than 50, until the source's next rejection.
func (db *DB) RecordRejections(ctx context.Context, last []eventhook.Rejection, counts []eventhook.RejectionCount) error {
	return db.inTx(ctx, "record rejections", func(tx pgx.Tx) error {
		locked, err := lockSources(ctx, tx, rejectingSources(last, counts))
		if err != nil || len(locked) == 0 {
			return err
		}
		var batch pgx.Batch
		queueCounts(&batch, onlySources(counts, locked, func(c eventhook.RejectionCount) eventhook.SourceID { return c.SourceID }))
		if err := queueRejections(&batch, onlySources(last, locked, func(r eventhook.Rejection) eventhook.SourceID { return r.SourceID })); err != nil {
			return err
		}
		batch.Queue(pruneRejectionsSQL, uuids(locked), maxRejectionsPerSource)
		return tx.SendBatch(ctx, &batch).Close()
	})
}

// rejectingSources returns the sorted ids of the sources that occur in the arguments.
func rejectingSources(last []eventhook.Rejection, counts []eventhook.RejectionCount) []eventhook.SourceID {
	var ids []eventhook.SourceID
	for i := range last {
		ids = append(ids, last[i].SourceID)
	}
	for _, c := range counts {
		ids = append(ids, c.SourceID)
	}
	slices.SortFunc(ids, compareSources)
	return slices.Compact(ids)
}

func compareSources(a, b eventhook.SourceID) int { return cmp.Compare(string(a[:]), string(b[:])) }

// lockSources returns the ids of the sources that exist, sorted.
func lockSources(ctx context.Context, tx pgx.Tx, ids []eventhook.SourceID) ([]eventhook.SourceID, error) {
	rows, err := tx.Query(ctx, lockSourcesSQL, uuids(ids))
	if err != nil {
		return nil, err
	}
	locked, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (id eventhook.SourceID, err error) {
		return id, r.Scan((*[16]byte)(&id))
	})
	slices.SortFunc(locked, compareSources)
	return locked, err
}

// onlySources returns the elements of a list that belong to the given sources, whose ids are
// sorted.
func onlySources[T any](list []T, sources []eventhook.SourceID, of func(T) eventhook.SourceID) []T {
	return slices.DeleteFunc(slices.Clone(list), func(item T) bool {
		_, ok := slices.BinarySearchFunc(sources, of(item), compareSources)
		return !ok
	})
}

func queueCounts(batch *pgx.Batch, counts []eventhook.RejectionCount) {
	n := len(counts)
	source, reason, count := make([][16]byte, n), make([]string, n), make([]int64, n)
	first, last := make([]time.Time, n), make([]time.Time, n)
	for i, c := range counts {
		source[i], reason[i], count[i], first[i], last[i] = c.SourceID, eventhook.SanitizeText(c.Reason), c.Count, c.FirstAt, c.LastAt
	}
	batch.Queue(countRejectionsSQL, source, reason, count, first, last)
}

func queueRejections(batch *pgx.Batch, list []eventhook.Rejection) error {
	n := len(list)
	id, source := make([][16]byte, n), make([][16]byte, n)
	outcome, reason, detail, method := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	client, headers, size, hash := make([]string, n), make([]string, n), make([]int64, n), make([][]byte, n)
	for i := range list {
		r := &list[i]
		names, err := json.Marshal(append([]string{}, r.HeaderNames...))
		if err != nil {
			return fmt.Errorf("header names: %w", err)
		}
		id[i], source[i], outcome[i], reason[i] = r.ID, r.SourceID, eventhook.SanitizeText(r.Outcome), eventhook.SanitizeText(r.Reason)
		detail[i], method[i], client[i] = eventhook.SanitizeText(r.Detail), eventhook.SanitizeText(r.Method), eventhook.SanitizeText(r.ClientAddress)
		headers[i], size[i], hash[i] = string(names), r.BodySize, r.BodySHA256
	}
	batch.Queue(insertRejectionsSQL, pgx.StrictNamedArgs{"ids": id, "sources": source, "outcomes": outcome, "reasons": reason, "details": detail,
		"methods": method, "addresses": client, "headers": headers, "sizes": size, "hashes": hash})
	return nil
}

const findSourceIDSQL = `SELECT id FROM eventhook.source WHERE tenant_id = $1 AND slug = $2`

// listRejectionsSQL reads the index on the source and the id backwards.
const listRejectionsSQL = `
SELECT id, source_id, outcome, reason, detail, method, coalesce(client_address, ''), header_names, coalesce(body_size, -1), body_sha256
FROM eventhook.rejection
WHERE source_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`

const rejectionCountsSQL = `
SELECT source_id, reason, count, first_at, last_at FROM eventhook.rejection_count
WHERE source_id = $1 ORDER BY count DESC, reason`

// Rejections lists the stored rejections of one of the tenant's sources, newest first, and the
// counts by reason, the most frequent first. The error is KindNotFound if the tenant has no
// such source.
func (db *DB) Rejections(ctx context.Context, tenant eventhook.TenantID, source string, before eventhook.RejectionID, limit int) ([]eventhook.Rejection, []eventhook.RejectionCount, error) {
	const act = "list rejections"
	var id [16]byte
	if err := db.lists.QueryRow(ctx, findSourceIDSQL, [16]byte(tenant), source).Scan(&id); err != nil {
		return nil, nil, translate(act, notFound(err, "source"))
	}
	rows, err := db.lists.Query(ctx, listRejectionsSQL, id, uuidArg(before), limit)
	if err != nil {
		return nil, nil, translate(act, err)
	}
	list, err := pgx.CollectRows(rows, scanRejection)
	if err != nil {
		return nil, nil, translate(act, err)
	}
	if rows, err = db.lists.Query(ctx, rejectionCountsSQL, id); err != nil {
		return nil, nil, translate(act, err)
	}
	counts, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c eventhook.RejectionCount, err error) {
		return c, r.Scan((*[16]byte)(&c.SourceID), &c.Reason, &c.Count, &c.FirstAt, &c.LastAt)
	})
	return list, counts, translate(act, err)
}

func scanRejection(row pgx.CollectableRow) (r eventhook.Rejection, err error) {
	var names []byte
	err = row.Scan((*[16]byte)(&r.ID), (*[16]byte)(&r.SourceID), &r.Outcome, &r.Reason, &r.Detail, &r.Method, &r.ClientAddress,
		&names, &r.BodySize, &r.BodySHA256)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(names, &r.HeaderNames)
}

// rejectionRetention is how long a rejection is stored, even if the source has no newer one.
const rejectionRetention = 30 * day

// sweepRejectionsSQL deletes the oldest rejections before an id; the id encodes the time. It
// skips locked rows. Primary key.
const sweepRejectionsSQL = `
DELETE FROM eventhook.rejection WHERE id = ANY(ARRAY(
    SELECT id FROM eventhook.rejection WHERE id < $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))`

// SweepRejections deletes up to a thousand rejections that are older than 30 days, and returns
// their number. Counts stay.
func (db *DB) SweepRejections(ctx context.Context) (int, error) {
	const limit = 1000
	before := eventhook.FirstID[eventhook.Rejection](db.now().Add(-rejectionRetention))
	tag, err := db.work.Exec(ctx, sweepRejectionsSQL, [16]byte(before), limit)
	return int(tag.RowsAffected()), translate("sweep rejections", err)
}
