package route

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/script"
)

// ScriptTime is the time limit of scripts in tests. It and maxEvalTime are so long that results do not
// depend on the speed of the machine.
const ScriptTime = time.Second

func init() {
	eventScripts, testScripts = script.NewPool(2, ScriptTime), newTestRunner(script.NewPool(1, ScriptTime))
	maxEvalTime = time.Hour
}

// SetEvalTime sets the time limit of a CEL evaluation until the test ends.
func SetEvalTime(t *testing.T, limit time.Duration) {
	former := maxEvalTime
	maxEvalTime = limit
	t.Cleanup(func() { maxEvalTime = former })
}

// RunScriptsWith sets the function that runs scripts. Call it before Run.
func (p *Processor) RunScriptsWith(run func(program script.Program, input []byte) (json.RawMessage, error)) {
	p.run = run
}

// Load loads the compiled routes of a source into the cache.
func (p *Processor) Load(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID) error {
	_, err := p.programs.Get(ctx, programKey{tenant, source})
	return err
}
