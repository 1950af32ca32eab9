package eventhook

// MaxPageBytes bounds what the JSON in one page of a list has, but for the last
// entry: a store that lists executions or promises stops after the entry that
// goes beyond it.
const MaxPageBytes = 16 << 20

// Bytes is the size of what workers have stored with an execution.
func (x Execution) Bytes() int { return len(x.Input) + len(x.State) + len(x.Output) }

// Bytes is the size of a promise's value.
func (p Promise) Bytes() int { return len(p.Value) }
