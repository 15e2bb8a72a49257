; A matrix, or a batch of them: its 7 words are data, stride of the batch in bytes, rows, columns,
; 111 or 112 for transposed, leading dimension, matrices (-1: one, for each of the batch). False where it is
; no such array, or BLAS takes no such layout.
define internal i1 @matrix(ptr %array, i64 %class, i64 %dtype, i64 %item, ptr %words) {
entry:
  %class_at = getelementptr i8, ptr %array, i64 TYPE
  %its_class = load i64, ptr %class_at
  %is_array = icmp eq i64 %its_class, %class
  br i1 %is_array, label %look, label %no

no:
  ret i1 false

look:
  %data_at = getelementptr i8, ptr %array, i64 DATA_OFFSET
  %axes_at = getelementptr i8, ptr %data_at, i64 8
  %sizes_at = getelementptr i8, ptr %data_at, i64 16
  %strides_at = getelementptr i8, ptr %data_at, i64 24
  %dtype_at = getelementptr i8, ptr %data_at, i64 40
  %its_dtype = load i64, ptr %dtype_at
  %data = load i64, ptr %data_at
  %axes = load i32, ptr %axes_at
  %right_dtype = icmp eq i64 %its_dtype, %dtype
  %is_matrix = icmp eq i32 %axes, 2
  %is_batch = icmp eq i32 %axes, 3
  %right_axes = or i1 %is_matrix, %is_batch
  %known = and i1 %right_dtype, %right_axes
  br i1 %known, label %measure, label %no

measure:
  %sizes = load ptr, ptr %sizes_at
  %strides = load ptr, ptr %strides_at
  %of_rows = select i1 %is_batch, i64 1, i64 0
  %of_columns = add i64 %of_rows, 1
  %rows_at = getelementptr i64, ptr %sizes, i64 %of_rows
  %columns_at = getelementptr i64, ptr %sizes, i64 %of_columns
  %down_at = getelementptr i64, ptr %strides, i64 %of_rows
  %right_at = getelementptr i64, ptr %strides, i64 %of_columns
  %rows = load i64, ptr %rows_at
  %columns = load i64, ptr %columns_at
  %down = load i64, ptr %down_at
  %right = load i64, ptr %right_at
  %first_size = load i64, ptr %sizes
  %first_stride = load i64, ptr %strides
  %batch = select i1 %is_batch, i64 %first_size, i64 -1
  %batch_stride = select i1 %is_batch, i64 %first_stride, i64 0

  %one_row = icmp eq i64 %rows, 1
  %one_column = icmp eq i64 %columns, 1
  %row_bytes = mul i64 %columns, %item
  %column_bytes = mul i64 %rows, %item
  %down_rest = srem i64 %down, %item
  %right_rest = srem i64 %right, %item
  %data_rest = srem i64 %data, %item

  %dense_right = icmp eq i64 %right, %item
  %runs_right = or i1 %dense_right, %one_column
  %wide_down = icmp sge i64 %down, %row_bytes
  %even_down = icmp eq i64 %down_rest, 0
  %steps_down = and i1 %wide_down, %even_down
  %fits_down = or i1 %steps_down, %one_row
  %by_rows = and i1 %runs_right, %fits_down
  %rows_apart = sdiv i64 %down, %item
  %leading_rows = select i1 %one_row, i64 %columns, i64 %rows_apart

  %dense_down = icmp eq i64 %down, %item
  %runs_down = or i1 %dense_down, %one_row
  %wide_right = icmp sge i64 %right, %column_bytes
  %even_right = icmp eq i64 %right_rest, 0
  %steps_right = and i1 %wide_right, %even_right
  %fits_right = or i1 %steps_right, %one_column
  %by_columns = and i1 %runs_down, %fits_right
  %columns_apart = sdiv i64 %right, %item
  %leading_columns = select i1 %one_column, i64 %rows, i64 %columns_apart

  %flag = select i1 %by_rows, i64 111, i64 112
  %leading = select i1 %by_rows, i64 %leading_rows, i64 %leading_columns
  %either = or i1 %by_rows, %by_columns
  %aligned = icmp eq i64 %data_rest, 0
  %good = and i1 %either, %aligned
  %words_1 = getelementptr i64, ptr %words, i64 1
  %words_2 = getelementptr i64, ptr %words, i64 2
  %words_3 = getelementptr i64, ptr %words, i64 3
  %words_4 = getelementptr i64, ptr %words, i64 4
  %words_5 = getelementptr i64, ptr %words, i64 5
  %words_6 = getelementptr i64, ptr %words, i64 6
  store i64 %data, ptr %words
  store i64 %batch_stride, ptr %words_1
  store i64 %rows, ptr %words_2
  store i64 %columns, ptr %words_3
  store i64 %flag, ptr %words_4
  store i64 %leading, ptr %words_5
  store i64 %batch, ptr %words_6
  ret i1 %good
}
