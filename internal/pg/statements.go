package pg

import "maps"

// workStatements are prepared on each connection of the work pool, since they
// are run through the protocol's binary parameters.
var workStatements = func() map[string]string {
	all := map[string]string{"generations": generationsSQL, "settle_events": settleEventsSQL, "settle_deliveries": settleDeliveriesSQL,
		"lock_events": lockEventsSQL, "conclude_events": concludeEventsSQL}
	maps.Copy(all, effectStatements)
	return all
}()
