define internal i64 @jtorch_parallel(ptr %pool, i64 %kernel, i64 %block, i64 %count, i64 %stride) {
  unreachable
}
