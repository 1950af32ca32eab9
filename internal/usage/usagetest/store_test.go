package usagetest_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/internal/usage/usagetest"
)

func TestStoreConforms(t *testing.T) {
	usagetest.Check(t, func(*testing.T) usage.Store { return usagetest.NewStore() })
}
