package route

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/script"
)

// ScriptTime is the time limit of scripts in tests. Together with the limit of an
// evaluation it is so long that results do not depend on the machine's speed.
const ScriptTime = time.Second

func init() {
	eventScripts, testScripts = script.NewPool(2, ScriptTime), newTestRunner(script.NewPool(1, ScriptTime))
	maxEvalTime = time.Hour
}

// SetEvalTime sets the limit of time of one evaluation of CEL until the test ends.
func SetEvalTime(t *testing.T, limit time.Duration) {
	former := maxEvalTime
	maxEvalTime = limit
	t.Cleanup(func() { maxEvalTime = former })
}

// RunScriptsWith has scripts run by run. Call it before Run.
func (p *Processor) RunScriptsWith(run func(program script.Program, input []byte) (json.RawMessage, error)) {
	p.run = run
}

// Load has the compiled routes of a source in memory.
func (p *Processor) Load(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID) error {
	_, err := p.programs.Get(ctx, programKey{tenant, source})
	return err
}
