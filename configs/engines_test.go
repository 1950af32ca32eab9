package configs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
)

func TestCheckTargets(t *testing.T) {
	list, faults := tenants(t, `tenants: [{slug: a, sources: [{slug: s, verifier: {type: none}, routes: [{name: r, targets: [
		{type: task, task_kind: k}, {type: workflow, workflow_kind: k, engine: temporal, address: "a.example:7233", namespace: n}]}]}]}]`, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	check := func(target eventhook.Target) error {
		if strings.Contains(string(target.Settings), "temporal") {
			return errors.New("not this one")
		}
		return nil
	}
	if err := configs.CheckTargets(list, check); err == nil || !strings.Contains(err.Error(), "a/s/r.targets[1]: not this one") {
		t.Errorf("got %v, want a fault of the second target", err)
	}
	if err := configs.CheckTargets(list, func(eventhook.Target) error { return nil }); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}
