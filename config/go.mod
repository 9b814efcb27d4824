module github.com/sluicegate/sluice/config

go 1.26.0

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/sluicegate/sluice v0.0.0
	go.yaml.in/yaml/v4 v4.0.0
)

require golang.org/x/text v0.42.0 // indirect

replace github.com/sluicegate/sluice => ..
