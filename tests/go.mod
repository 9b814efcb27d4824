module github.com/sluicegate/sluice/tests

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/dunglas/httpsfv v1.1.2
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
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace github.com/sluicegate/sluice => ..

replace github.com/sluicegate/sluice/config => ../config

replace github.com/sluicegate/sluice/metrics => ../metrics

replace github.com/sluicegate/sluice/grpclimit => ../grpclimit

replace github.com/sluicegate/sluice/redisstore/goredis => ../redisstore/goredis

replace github.com/sluicegate/sluice/redisstore/rueidisstore => ../redisstore/rueidisstore
