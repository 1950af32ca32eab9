package pg

import (
	"cmp"
	"encoding/json"

	"github.com/eventhook/eventhook"
)

// isDestination is a condition on a target of a route, as JSON: its effects are deliveries. It is NULL if
// there is no target.
func isDestination(target string) string {
	return `(` + target + `->>'type' <> ALL ('{workflow,task,promise,publish}'::text[]) OR ` + target + `->>'engine' = 'temporal')`
}

// defaultHosts are the hosts of targets whose settings name none.
var defaultHosts = map[string]string{"pubsub": "pubsub.googleapis.com:443"}

// destinationHost returns the hosts of a target whose effects are deliveries, for users; isDestination is
// false for other targets.
func destinationHost(t eventhook.Target) (host string, isDestination bool) {
	var s struct {
		Engine, URL, Address, Brokers, Endpoint string
		QueueURL                                string `json:"queue_url"`
	}
	_ = json.Unmarshal(t.Settings, &s) // a stored target is JSON
	switch t.Type {
	case eventhook.TargetTask, eventhook.TargetPublish:
		return "", false
	case eventhook.TargetWorkflow, eventhook.TargetPromise:
		return s.Address, s.Engine == "temporal"
	}
	return cmp.Or(hostsOf(cmp.Or(s.URL, s.QueueURL)), s.Brokers, s.Endpoint, defaultHosts[t.Type]), true
}
