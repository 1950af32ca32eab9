package pg

// workStatements are prepared on each connection of the work pool, since they
// are run through the protocol's binary parameters.
var workStatements = map[string]string{
	"claim_keys":               claimKeysSQL,
	"insert_executions":        insertExecutionsSQL,
	"insert_executions_once":   insertExecutionsOnceSQL,
	"generations":              generationsSQL,
	"insert_publications":      insertPublicationsSQL,
	"insert_publications_once": insertPublicationsOnceSQL,
	"upsert_actions":           upsertActionsSQL,
	"settle_events":            settleEventsSQL,
	"settle_deliveries":        settleDeliveriesSQL,
	"lock_events":              lockEventsSQL,
	"conclude_events":          concludeEventsSQL,
}
