package configs_test

import (
	"errors"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
)

func TestAnUnknownVariableIsAFaultThatNamesTheClosestOne(t *testing.T) {
	for name, want := range map[string]string{
		"EVENTHOOK_LISTN":                    "EVENTHOOK_LISTEN",
		"EVENTHOOK_DATABASE_URL":             "DATABASE_URL",
		"EVENTHOOK_ADMINKEY":                 "EVENTHOOK_ADMIN_KEY",
		"EVENTHOOK_KEYS":                     "EVENTHOOK_KEY",
		"EVENTHOOK_SEVER":                    "EVENTHOOK_SERVER",
		"EVENTHOOK_ENCRYPTION_KEY":           "EVENTHOOK_ENCRYPTION_KEYS",
		"EVENTHOOK_RETENTION_EVENT_DAYS":     "EVENTHOOK_RETENTION_EVENTS_DAYS",
		"EVENTHOOK_MANAGEMENT_LISTEN_PORT":   "EVENTHOOK_MANAGEMENT_LISTEN",
		"EVENTHOOK_":                         "EVENTHOOK_KEY",
		"EVENTHOOK_OUTBOUND_PRIVATE_NETWORK": "EVENTHOOK_OUTBOUND_ALLOW_PRIVATE_NETWORKS",
	} {
		_, err := configs.Load(configs.Sources{Environ: []string{name + "=" + hiddenText}})
		e, ok := errors.AsType[*eventhook.Error](err)
		if !ok || len(e.Faults) != 1 {
			t.Errorf("%s: got %v, want one fault", name, err)
			continue
		}
		if got, want := e.Faults[0], (eventhook.Fault{Location: name, Message: "there is no such variable; the closest one is " + want}); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Kubernetes defines variables for every service of the namespace; see
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables.
func TestVariablesOfCommandsAndServiceLinksAreAccepted(t *testing.T) {
	_, err := configs.Load(configs.Sources{Environ: []string{
		"EVENTHOOK_SERVER=x", "EVENTHOOK_KEY=x", "EVENTHOOK_TENANT=x", "EVENTHOOK_SECRET=x", "EVENTHOOK_URL=x", "EVENTHOOK_CONFIG=x",
		"EVENTHOOK_TEST_DATABASE_URL=x", "EVENTHOOK_TEST_AS_MAIN=1", "EVENTHOOKS=x", "OTHER=x", "HOME",
		"EVENTHOOK_SERVICE_HOST=10.0.0.1", "EVENTHOOK_SERVICE_PORT=8080", "EVENTHOOK_SERVICE_PORT_HTTP=8080",
		"EVENTHOOK_PORT=tcp://10.0.0.1:8080", "EVENTHOOK_PORT_8080_TCP=tcp://10.0.0.1:8080", "EVENTHOOK_PORT_8080_TCP_ADDR=10.0.0.1",
		"EVENTHOOK_DB_SERVICE_HOST=10.0.0.2", "EVENTHOOK_DB_SERVICE_PORT=5432", "EVENTHOOK_DB_SERVICE_PORT_POSTGRES=5432",
		"EVENTHOOK_DB_PORT=tcp://10.0.0.2:5432", "EVENTHOOK_DB_PORT_5432_TCP=tcp://10.0.0.2:5432", "EVENTHOOK_DB_PORT_5432_TCP_PROTO=tcp",
		"EVENTHOOK_DB_PORT_5432_TCP_PORT=5432", "EVENTHOOK_DB_PORT_53_UDP_ADDR=10.0.0.2", "EVENTHOOK_V2_DB_PORT=udp://[fd00::2]:53",
	}})
	if err != nil {
		t.Error(err)
	}
}

func TestAVariableThatOnlyResemblesAServiceLinkIsAFault(t *testing.T) {
	for _, variable := range []string{"EVENTHOOK_LISTEN_PORT=8080", "EVENTHOOK_DB_PORT=5432", "EVENTHOOK_DB_PORT=http://10.0.0.2:80", "EVENTHOOK_DB_HOST=x", "EVENTHOOK_DB_PORT_5432_TCP_NAME=x"} {
		if _, err := configs.Load(configs.Sources{Environ: []string{variable}}); err == nil {
			t.Errorf("%s: got no error", variable)
		}
	}
}

func TestAnUnknownSettingNamesTheClosestOne(t *testing.T) {
	for key, want := range map[string]string{"listn": "listen", "ingest.writerz": "ingest.writers", "log.levels": "log.level"} {
		_, err := configs.Load(configs.Sources{Flags: map[string]string{key: "1"}})
		e, ok := errors.AsType[*eventhook.Error](err)
		if !ok || len(e.Faults) != 1 || e.Faults[0].Message != "there is no such setting; the closest one is "+want {
			t.Errorf("%s: got %v, want %s as the closest setting", key, err, want)
		}
	}
}
