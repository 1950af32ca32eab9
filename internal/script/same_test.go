package script_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/script"
)

// A program over the same event has the same result at each run, also in another process.
func TestResultsAreTheSameAtEachRun(t *testing.T) {
	const input = `{"event_id":"019a9f5c-6f03-7c1e-9d0a-5b1f6f3f7a10","timestamp":"2026-11-22T02:44:25.123Z","b":1,"a":{"x":[2]},"e":3,"d":4,"c":5}`
	for _, c := range []struct {
		kind         script.Kind
		source, want string // want is "" for any result
	}{
		{script.JMESPath, "keys(@)", `["a","b","c","d","e","event_id","timestamp"]`},
		{script.JMESPath, "values(merge(@, {event_id: `0`, timestamp: `9`}))", `[{"x":[2]},1,5,4,3,0,9]`},
		{script.JMESPath, "items({z: b, y: c})", `[["y",5],["z",1]]`},
		{script.JMESPath, "*", `[{"x":[2]},1,5,4,3,"019a9f5c-6f03-7c1e-9d0a-5b1f6f3f7a10","2026-11-22T02:44:25.123Z"]`},
		{script.JMESPath, "*.x[]", `[2]`},
		{script.JMESPath, "a.x.*", `null`},
		{script.JMESPath, "`[3,1,2]` | [@[0], sort_by(@, &@)[0]]", `[3,1]`},
		{script.JMESPath, "{y: *.x | [0], z: a.*[0]}", `{"y":[2],"z":[2]}`},
		{script.Reshape, "const transform = e => [Date.now(), new Date().toISOString(), new Date(0).getTime(), new Date() instanceof Date, new (new Date().constructor)().getTime()]",
			`[1795315465123,"2026-11-22T02:44:25.123Z",0,true,1795315465123]`},
		{script.Reshape, "const transform = () => Date()", ``},
		{script.Reshape, "const transform = () => [Math.random(), Math.random()]", ``},
		{script.Reshape, "const transform = e => e.b", `1`},
	} {
		results := map[string]bool{}
		for range 2 {
			pool := script.NewPool(1, 100*script.TimeLimit)
			for range 3 {
				got, err := pool.Run(t.Context(), script.Program{Kind: c.kind, Source: c.source}, []byte(input))
				if err != nil || c.want != "" && string(got) != c.want {
					t.Errorf("%s: got %s, %v, want %s", c.source, got, err, c.want)
				}
				results[string(got)] = true
			}
			pool.Close()
		}
		if len(results) != 1 {
			t.Errorf("%s: got several results: %v", c.source, results)
		}
	}
}
