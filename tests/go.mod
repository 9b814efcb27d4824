module github.com/sluicegate/sluice/tests

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/dunglas/httpsfv v1.1.2
	github.com/pb33f/libopenapi v0.42.5
	github.com/pb33f/libopenapi-validator v0.16.3
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/sluicegate/sluice v0.0.0
	github.com/sluicegate/sluice/config v0.0.0
	github.com/sluicegate/sluice/redisstore/goredis v0.0.0
	github.com/sluicegate/sluice/redisstore/rueidisstore v0.0.0
	go.yaml.in/yaml/v4 v4.0.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/bahlo/generic-list-go v0.2.0 // indirect
	github.com/basgys/goxml2json v1.1.1-0.20231018121955-e66ee54ceaad // indirect
	github.com/buger/jsonparser v1.6.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-openapi/jsonpointer v1.0.2 // indirect
	github.com/pb33f/go-yaml v0.1.1 // indirect
	github.com/pb33f/jsonpath v0.8.5 // indirect
	github.com/pb33f/jsonschema/v6 v6.0.3 // indirect
	github.com/pb33f/ordered-map/v2 v2.3.2 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/sluicegate/sluice => ..

replace github.com/sluicegate/sluice/config => ../config

replace github.com/sluicegate/sluice/metrics => ../metrics

replace github.com/sluicegate/sluice/grpclimit => ../grpclimit

replace github.com/sluicegate/sluice/redisstore/goredis => ../redisstore/goredis

replace github.com/sluicegate/sluice/redisstore/rueidisstore => ../redisstore/rueidisstore
