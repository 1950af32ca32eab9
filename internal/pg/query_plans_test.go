package pg

import (
	"cmp"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// frequentStatements has the statements that run for each batch, request or sweep, with the
// number of their parameters; 0: the parameters have names.
var frequentStatements = map[string]struct {
	sql        string
	parameters int
}{
	"claim events":           {claimEventsSQL, 4},
	"read payloads":          {readPayloadsSQL, 1},
	"start of a payload":     {readPayloadStartSQL, 2},
	"routed event":           {routedEventSQL, 2},
	"release events":         {releaseEventsSQL, 4},
	"claim keys":             {claimKeysSQL.sql, len(claimKeysSQL.params)},
	"insert executions":      {insertExecutionsSQL.sql, len(insertExecutionsSQL.params)},
	"insert published":       {insertPublishedSQL.sql, len(insertPublishedSQL.params)},
	"insert payloads":        {insertPayloadsSQL.sql, len(insertPayloadsSQL.params)},
	"insert deliveries":      {insertDeliveriesSQL.sql, len(insertDeliveriesSQL.params)},
	"lock order":             {lockOrderSQL.sql, len(lockOrderSQL.params)},
	"advance order":          {advanceOrderSQL.sql, len(advanceOrderSQL.params)},
	"insert ordered":         {insertOrderedSQL.sql, len(insertOrderedSQL.params)},
	"lock order of":          {lockOrderOfSQL, 2},
	"lock events of":         {lockEventsOfSQL, 2},
	"lock exact":             {lockExactSQL, 0},
	"lock matching":          {lockMatchingSQL, 0},
	"insert replay":          {insertReplaySQL, 0},
	"running replay":         {runningReplaySQL, 2},
	"count replays":          {countReplaysSQL, 1},
	"list replays":           {listReplaysSQL, 6},
	"find replay":            {findReplaySQL, 3},
	"precede order":          {precedeOrderSQL, 0},
	"delivery queue":         {deliveryQueueSQL, 0},
	"event queue":            {eventQueueSQL, 0},
	"add traffic":            {addTrafficSQL, 0},
	"traffic series":         {seriesSQL, 0},
	"overview of sources":    {sourcesOverviewSQL, 0},
	"overview of tenants":    {tenantsOverviewSQL, 0},
	"work queues":            {workQueuesSQL, 0},
	"events of a tenant":     {tenantEventsSQL, 0},
	"deliveries of a tenant": {tenantDeliveriesSQL, 0},
	"sending targets":        {sendingTargetsSQL, 2},
	"failing subscriptions":  {disabledSQL, 0},
	"dead deliveries":        {deadDeliveriesSQL, 0},
	"dead executions":        {deadExecutionsSQL, 0},
	"offline agents":         {offlineAgentsSQL, 0},
	"refusing sources":       {refusingSourcesSQL, 0},
	"lock all order":         {lockAllOrderSQL, 0},
	"set actions":            {setActionsSQL.sql, len(setActionsSQL.params)},
	"read actions":           {readActionsSQL, 2},
	"legacy actions":         {readLegacyActionsSQL, 1},
	"read requests":          {readRequestsSQL, 4},
	"generations":            {generationsSQL.sql, len(generationsSQL.params)},
	"due destinations":       {dueDestinationsSQL, 3},
	"claim deliveries":       {claimDeliveriesSQL, 6},
	"claim retries":          {claimTriedSQL, 6},
	"due for agents":         {countDueForAgentsSQL, 0},
	"claim for agent":        {claimForAgentSQL, 0},
	"probe by agent":         {claimTriedForAgentSQL, 0},
	"expired for agents":     {expiredForAgentsSQL, 0},
	"held deliveries":        {heldDeliveriesSQL, 0},
	"routes for agents":      {routesForAgentsSQL, 1},
	"read published":         {readPublishedSQL, 2},
	"release sends":          {releaseDeliveriesSQL, 4},
	"settle deliveries":      {settleDeliveriesSQL.sql, len(settleDeliveriesSQL.params)},
	"open outages":           {openOutagesSQL.sql, len(openOutagesSQL.params)},
	"lock subscribers":       {lockSubscriptionsSQL, 1},
	"add dead":               {addDeadSQL, 5},
	"reserve sends":          {reserveSendsSQL, 3},
	"abandon":                {abandonDeliveriesSQL, 0},
	"read bodies":            {readBodiesSQL, 1},
	"lock events":            {lockEventsSQL.sql, len(lockEventsSQL.params)},
	"conclude events":        {concludeEventsSQL.sql, len(concludeEventsSQL.params)},
	"reopen events":          {reopenEventsSQL, 2},
	"expire deliveries":      {expireDeliveriesSQL, 0},
	"expire held":            {expireHeldSQL, 0},
	"count outages":          {subscriptionCountsSQL, 0},
	"delete recovery":        {deleteRecoverySQL, 1},
	"sweep replays":          {sweepReplaysSQL, 1},
	"restart":                {restartDeliveriesSQL, 0},
	"lease replay":           {leaseReplaySQL, 3},
	"next replay":            {nextReplaySQL, 0},
	"open of replay":         {openOfReplaySQL, 2},
	"replay undelivered":     {undeliveredPageSQL, 5},
	"replay delivered":       {deliveredPageSQL, 4},
	"replay events":          {eventPageSQL, 4},
	"replay of all tenants":  {allEventsPageSQL, 4},
	"delivery states":        {deliveryStatesSQL, 5},
	"claim cleanup":          {claimCleanupSQL, 2},
	"seen agents":            {seenAgentsSQL, 4},
	"deliveries by id":       {deliveriesByIDSQL, 2},
	"sizes of events":        {eventSizesSQL, 2},
	"insert missing":         {insertMissingSQL, 0},
	"advance replay":         {advanceReplaySQL, 0},
	"count replay":           {countReplaySQL, 2},
	"count deliveries":       {countDeliveriesSQL, 4},
	"deliveries of an event": {eventDeliveriesSQL, 5},
	"subscriber stats":       {subscriptionStatsSQL, 0},
	"count sent":             {addSubscriptionCountsSQL, 0},
	"sweep subscribers":      {sweepSubscriptionUsageSQL, 3},
	"settle events":          {settleEventsSQL.sql, len(settleEventsSQL.params)},
	"settle promises":        {settlePromisesSQL, 0},
	"hold outcomes":          {holdOutcomesSQL, 0},
	"find promises":          {findPromisesSQL, 0},
	"lock awaiting":          {lockWorkflowsSQL, 1},
	"resume awaiting":        {resumeWorkflowsSQL, 2},
	"create promise":         {createPromiseSQL.logged, 0},
	"expire promises":        {expirePromisesSQL, 1},
	"claim work":             {claimWorkSQL.logged, 0},
	"claim kinds":            {claimKindsSQL.logged, 0},
	"claim work, silent":     {claimWorkSQL.silent, 0},
	"claim kinds, silent":    {claimKindsSQL.silent, 0},
	"complete one, silent":   {completeOneSQL.silent, 5},
	"fail work, silent":      {failSQL.silent, 0},
	"is logged":              {isLoggedSQL, 1},
	"lifecycle names":        {lifecycleNamesSQL, 1},
	"more of kinds":          {countOldestSQL, 0},
	"claim by place":         {claimByPlaceSQL.logged, 0},
	"claim kinds by place":   {claimKindsByPlaceSQL.logged, 0},
	"more by place":          {countByPlaceSQL, 0},
	"more kinds by place":    {countKindsByPlaceSQL, 0},
	"next early":             {nextEarlySQL, 0},
	"start work":             {startWorkSQL, 0},
	"release work":           {releaseClaimsSQL, 4},
	"heartbeat":              {heartbeatSQL, 5},
	"next work":              {nextWorkSQL, 3},
	"next of kinds":          {nextKindsSQL, 3},
	"complete one":           {completeOneSQL.logged, 5},
	"complete many":          {completeManySQL.logged, 5},
	"existing executions":    {existingExecutionsSQL, 2},
	"read awaited":           {readAwaitedSQL, 1},
	"lock promises":          {lockPromisesSQL, 2},
	"suspend":                {suspendSQL.logged, 6},
	"fail work":              {failSQL.logged, 0},
	"cancel work":            {cancelSQL.logged, 3},
	"retry work":             {retrySQL, 3},
	"take lifecycle":         {takeLifecycleSQL, 1},
	"await":                  {awaitSQL, 2},
	"reprocess events":       {reprocessSQL, 3},
	"watched events":         {watchedEventsSQL, 2},
	"find key":               {findIdempotencyKeySQL, 5},
	"lock failing":           {lockFailingSQL, 1},
	"lock by ids":            {lockSubscriptionRowsSQL, 1},
	"lock health":            {lockHealthSQL, 1},
	"resume health":          {resumeHealthSQL, 0},
	"stop probes":            {stopProbesSQL, 0},
	"read outage":            {outageSQL, 2},
	"running recovery":       {runningRecoverySQL, 1},
	"missed deliveries":      {missedSQL, 0},
	"probe now":              {probeNowSQL, 0},
	"claim probes":           {claimProbesSQL, 0},
	"claim missed":           {claimMissedSQL, 0},
	"end probe":              {endProbeSQL, 0},
	"reject missed":          {rejectMissedSQL, 2},
	"end outages":            {endOutagesSQL, 0},
	"recover late":           {recoverLateSQL, 0},
	"renew stale":            {renewStaleSQL, 0},
	"find subscribers":       {subscribersSQL, 2},
	"read generation":        {generationSQL, 1},
	"lock sources":           {lockSourcesSQL, 1},
	"count rejections":       {countRejectionsSQL, 5},
	"prune rejections":       {pruneRejectionsSQL, 2},
	"list rejections":        {listRejectionsSQL, 3},
	"sweep rejections":       {sweepRejectionsSQL, 2},
	"execution queue":        {executionQueueSQL, 0},
	"suspended executions":   {suspendedSQL, 0},
	"sweep keys":             {sweepKeysSQL, 3},
	"sweep executions":       {sweepExecutionsSQL, 3},
	"sweep promises":         {sweepPromisesSQL, 3},
	"count tenants":          {addTenantCountsSQL, 5},
	"count sources":          {addSourceCountsSQL, 5},
	"usage between":          {usageBetweenSQL, 3},
	"tenant usage":           {tenantUsageSQL, 2},
	"source stats":           {sourceStatsSQL, 3},
	"sweep tenants":          {sweepTenantUsageSQL, 3},
	"sweep sources":          {sweepSourceUsageSQL, 3},
}

// explain returns the generic plan of a statement, which does not depend on the values of
// its parameters.
func explain(f *fixture, conn *pgx.Conn, sql string, parameters int) string {
	f.Helper()
	numbered, args, err := pgx.NamedArgs{}.RewriteQuery(f.Context(), conn, sql, nil)
	f.must(err)
	if len(args) > 0 {
		sql, parameters = numbered, len(args)
	}
	_, err = conn.Exec(f.Context(), `DEALLOCATE ALL; SET plan_cache_mode = force_generic_plan; PREPARE s AS `+sql, pgx.QueryExecModeSimpleProtocol)
	f.must(err)
	arguments := ""
	if parameters > 0 {
		arguments = `(` + strings.TrimSuffix(strings.Repeat("NULL, ", parameters), ", ") + `)`
	}
	rows, err := conn.Query(f.Context(), `EXPLAIN EXECUTE s `+arguments, pgx.QueryExecModeSimpleProtocol)
	f.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	return strings.Join(lines, "\n")
}

// inTableStates calls check in each state of the tables that a list has to cope with: without
// partitions, without rows, before ANALYZE, with rows that are alike, and with rows that the
// statement spread made different.
func (f *fixture) inTableStates(check func(state string), spread string) {
	f.Helper()
	check("no partition, no row")
	f.must(f.db.MaintainPartitions(f.Context(), 5, Retention{}))
	check("no row")
	f.fillTables(2000, 10)
	check("before the first ANALYZE")
	f.exec(`ANALYZE`)
	check("rows that are alike")
	f.exec(spread)
	f.exec(`ANALYZE`)
	check("rows that differ")
}

// fillTables inserts rows into every data table: settled rows, then due ones.
func (f *fixture) fillTables(settled, due int) {
	f.Helper()
	f.exec(`INSERT INTO eventhook.event (id, tenant_id, source_id, due_at, status, origin)
		SELECT overlay(gen_random_uuid()::text PLACING substr($2, 1, 13) FROM 1)::uuid, $1, $1, CASE WHEN i > $4::int THEN $3::timestamptz END,
			CASE WHEN i > $4 THEN 'pending' ELSE 'unrouted' END, 'source'
		FROM generate_series(1, $4::int + $5::int) i`, [16]byte(f.tenant), eventhook.FirstID[eventhook.Event](f.clock.Now()).String(), f.clock.Now(), settled, due)
	f.exec(`INSERT INTO eventhook.event_payload SELECT id, '', '' FROM eventhook.event ON CONFLICT DO NOTHING`)
	f.exec(`INSERT INTO eventhook.execution (id, tenant_id, due_at, created_at, completed_at, status, type, max_attempts, queue, kind)
		SELECT gen_random_uuid(), $1, CASE WHEN i > $3::int THEN $2::timestamptz END, $2, CASE WHEN i <= $3 THEN $2 END,
			CASE WHEN i > $3 THEN 'pending' ELSE 'completed' END, 'task', 3, 'ci', 'build'
		FROM generate_series(1, $3::int + $4::int) i`, [16]byte(f.tenant), f.clock.Now(), settled, due)
	f.exec(`INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, due_at, completed_at, status, event_type)
		SELECT overlay(gen_random_uuid()::text PLACING substr($2, 1, 13) FROM 1)::uuid, $1, $1, $1, CASE WHEN i > $4::int THEN $3::timestamptz END,
			CASE WHEN i <= $4 THEN $3::timestamptz END, CASE WHEN i > $4 THEN 'pending' ELSE 'success' END, 'push'
		FROM generate_series(1, $4::int + $5::int) i`, [16]byte(f.tenant), eventhook.FirstID[eventhook.Event](f.clock.Now()).String(), f.clock.Now(), settled, due)
	f.exec(`INSERT INTO eventhook.subscription_usage SELECT gen_random_uuid(), $1, i % 16, 1, 1, 1, 1 FROM generate_series(1, $2::int) i`, f.clock.Now(), settled+due)
	f.exec(`INSERT INTO eventhook.tenant_usage SELECT gen_random_uuid(), $1::date - i % 90, i % 16, 1, 1 FROM generate_series(1, $2::int) i`, f.clock.Now(), settled+due)
	f.exec(`INSERT INTO eventhook.source_usage SELECT gen_random_uuid(), $1, i % 16, 1, 1 FROM generate_series(1, $2::int) i`, f.clock.Now(), settled+due)
}

var wholeTable = regexp.MustCompile(`Seq Scan on (event|execution|promise|idempotency_key|rejection|source|tenant_usage|delivery|subscription|replay)\S*`)

// sortsEvents is a sort, or an unordered read, below the limits of countOpenEventsSQL.
var sortsEvents = regexp.MustCompile(`Sort  \(cost.*\n\s+Sort Key: event|Bitmap Heap Scan`)

var sorts = regexp.MustCompile(`Sort  \(cost|Bitmap Heap Scan`)

func TestFrequentStatementsReadNoWholeTable(t *testing.T) {
	f := setUp(t)
	conn, err := f.db.work.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	check := func(state string) {
		for name, s := range frequentStatements {
			plan := explain(f, conn.Conn(), s.sql, s.parameters)
			if bad := wholeTable.FindString(plan); bad != "" {
				t.Errorf("%s, %s: %s in\n%s", state, name, bad, plan)
			}
			if name == "claim cleanup" && !strings.Contains(plan, "tenant_cleanup_due") {
				t.Errorf("%s, %s reads all closed tenants:\n%s", state, name, plan)
			}
			// A sort reads all due rows before it returns the first.
			if (name == "claim events" || name == "claim work" || name == "claim work, silent") && sorts.MatchString(plan) {
				t.Errorf("%s, %s: the plan sorts:\n%s", state, name, plan)
			}
		}
		// The statement stops at its limits only if an index has the order.
		if plan := explain(f, conn.Conn(), countOpenEventsSQL, 2); wholeTable.MatchString(plan) || sortsEvents.MatchString(plan) {
			t.Errorf("%s: counting open events reads more than its limits:\n%s", state, plan)
		}
	}
	check("no partition, no row")
	f.keep(Retention{})
	f.clock.Advance(day)
	f.keep(Retention{})
	check("no row")
	f.fillTables(2000, 0)
	f.exec(`ANALYZE`)
	check("nothing due")
	f.fillTables(2000, 1000)
	check("before the first ANALYZE")
	f.exec(`ANALYZE`)
	check("after it")
	f.fillTables(0, 20_000)
	check("grown since")
	f.exec(`ANALYZE`)
	check("nearly all due")
}

var scanned = regexp.MustCompile(`(?m)^.* (?:Seq|Index|Only|Heap) Scan.* on ((?:event|delivery)\S*) .*$`)

// partitionsRead returns the partitions that a statement read.
func partitionsRead(f *fixture, name, sql string, args ...string) []string {
	f.Helper()
	tx, err := f.db.work.Begin(f.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(f.Context()) }()
	_, err = tx.Exec(f.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`)
	f.must(err)
	_, err = tx.Prepare(f.Context(), name, sql)
	f.must(err)
	rows, err := tx.Query(f.Context(), `EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) EXECUTE `+pgx.Identifier{name}.Sanitize()+` ('`+strings.Join(args, `', '`)+`')`, pgx.QueryExecModeSimpleProtocol)
	f.must(err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	var names []string
	for _, line := range scanned.FindAllStringSubmatch(strings.Join(plan, "\n"), -1) {
		if !strings.Contains(line[0], "never executed") {
			names = append(names, line[1])
		}
	}
	return names
}

// valuesByName puts values into the order of a statement's parameters. A parameter
// without a value is an array with one NULL.
func valuesByName(s *statement, values map[string]string) (args []string) {
	for _, p := range s.params {
		name := p.name[strings.LastIndex(p.name, ".")+1:]
		args = append(args, cmp.Or(values[name], "{NULL}"))
	}
	return args
}

func TestStatementsReadOnlyThePartitionOfAnID(t *testing.T) {
	f := setUp(t)
	f.must(f.db.MaintainPartitions(t.Context(), 5, Retention{}))
	e := f.leasedEvents(1)[0]
	d := f.claimedDeliveries(1, f.insertSubscription())[0]
	ids, tenants, now := "{"+e.ID.String()+"}", "{"+f.tenant.String()+"}", noon.Format(time.RFC3339)
	deliveries := "{" + d.ID.String() + "}"
	least, greatest := eventhook.DeliveryIDRange(e.ID)
	for _, c := range []struct {
		act   string
		table string
		sql   string
		args  []string
	}{
		{"read payloads", "event_payload", readPayloadsSQL, []string{ids}},
		{"read actions", "event", readActionsSQL, []string{tenants, ids}},
		{"legacy actions", "event_action", readLegacyActionsSQL, []string{ids}},
		{"read requests", "delivery", readRequestsSQL, []string{tenants, ids, "{" + least.String() + "}", "{" + greatest.String() + "}"}},
		{"set actions", "event", setActionsSQL.sql, []string{tenants, ids, "{[]}"}},
		{"release events", "event", releaseEventsSQL, []string{tenants, ids, "{1}", "{" + now + "}"}},
		{"settle deliveries", "delivery", settleDeliveriesSQL.sql, valuesByName(settleDeliveriesSQL, map[string]string{
			"tenant_id": tenants, "id": deliveries, "lease_token": "{1}", "status": "{success}", "retry_count": "{0}", "attempts": "{0}", "now": now})},
		{"settle events", "event", settleEventsSQL.sql, valuesByName(settleEventsSQL, map[string]string{
			"tenant_id": tenants, "id": ids, "lease_token": "{1}", "status": "{unrouted}", "retry_count": "{0}", "now": now})},
	} {
		same(t, c.act, partitionsRead(f, c.act, c.sql, c.args...), []string{c.table + "_20260310"})
	}
}
