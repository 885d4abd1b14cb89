#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#shared2 = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#smem = #ttg.shared_memory
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, i64, i64, !tt.tensordesc<tensor<128x128xf16, #shared>>, i32, i32, i64, i64, !tt.tensordesc<tensor<128x128xf16, #shared>>, i32, i32, i64, i64, !tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, i64, i64, !tt.ptr<f32>, f32, i32) -> (), sym_name = "fa_fwd", sym_visibility = "public"}> ({
  ^bb0(%q_desc_0: !tt.tensordesc<tensor<64x128xf16, #shared>>, %q_desc_1: i32, %q_desc_2: i32, %q_desc_3: i64, %q_desc_4: i64, %k_desc_0: !tt.tensordesc<tensor<128x128xf16, #shared>>, %k_desc_1: i32, %k_desc_2: i32, %k_desc_3: i64, %k_desc_4: i64, %v_desc_0: !tt.tensordesc<tensor<128x128xf16, #shared>>, %v_desc_1: i32, %v_desc_2: i32, %v_desc_3: i64, %v_desc_4: i64, %o_desc_0: !tt.tensordesc<tensor<64x128xf16, #shared>>, %o_desc_1: i32, %o_desc_2: i32, %o_desc_3: i64, %o_desc_4: i64, %M_0: !tt.ptr<f32>, %sm_scale_0: f32, %L_0: i32):
    %0 = "arith.constant"() <{value = 128 : i32}> : () -> i32
    %1 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %2 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %3 = "arith.constant"() <{value = dense<0xFF800000> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>}> : () -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
    %4 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>}> : () -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
    %5 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x128xf32, #mma>}> : () -> tensor<64x128xf32, #mma>
    %6 = "arith.constant"() <{value = 1.44269502 : f32}> : () -> f32
    %7 = "arith.constant"() <{value = true}> : () -> i1
    %8 = "arith.constant"() <{value = false}> : () -> i1
    %9 = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %10 = "arith.cmpi"(%L_0, %0) <{predicate = 5 : i64}> : (i32, i32) -> i1
    "llvm.intr.assume"(%10) <{op_bundle_sizes = array<i32>}> : (i1) -> ()
    %q_s_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>
    %k_s_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>
    %v_s_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>
    %qbar_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %kfull_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %kempty_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %vfull_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %vempty_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %pp_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%qbar_0) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %11 = "ttg.memdesc_index"(%kfull_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%11) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %12 = "ttg.memdesc_index"(%kempty_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%12) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %13 = "ttg.memdesc_index"(%vfull_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%13) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %14 = "ttg.memdesc_index"(%vempty_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%14) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %15 = "ttg.memdesc_index"(%kfull_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%15) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %16 = "ttg.memdesc_index"(%kempty_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%16) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %17 = "ttg.memdesc_index"(%vfull_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%17) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %18 = "ttg.memdesc_index"(%vempty_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%18) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %19 = "ttg.memdesc_index"(%pp_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%19) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %20 = "ttg.memdesc_index"(%pp_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%20) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    "ttg.warp_specialize"(%o_desc_0, %M_0, %q_s_0, %k_s_0, %v_s_0, %qbar_0, %kfull_0, %kempty_0, %vfull_0, %vempty_0, %pp_0, %sm_scale_0, %L_0, %q_desc_0, %k_desc_0, %v_desc_0) <{partitionNumWarps = array<i32: 4, 1>, requestedRegisters = array<i32: 240, 24>}> ({
      %pm_0 = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
      %bh_0 = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
      %base_0 = "arith.muli"(%bh_0, %L_0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %offs_m_0 = "arith.muli"(%pm_0, %0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %offs_m_1 = "tt.make_range"() <{end = 64 : i32, start = 0 : i32}> : () -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
      %offs_m_2 = "tt.splat"(%offs_m_0) : (i32) -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
      %offs_m_3 = "arith.addi"(%offs_m_2, %offs_m_1) <{overflowFlags = #arith.overflow<none>}> : (tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
      %qk_scale_0 = "arith.mulf"(%sm_scale_0, %6) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "ttng.wait_barrier"(%qbar_0, %1, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
      %q_0 = "ttg.memdesc_index"(%q_s_0, %1) : (!ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x128xf16, #shared, #smem, mutable>
      "ttng.wait_barrier"(%11, %1, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
      "ttng.wait_barrier"(%19, %2, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
      %S_0 = "ttg.memdesc_index"(%k_s_0, %1) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
      %S_1 = "ttg.memdesc_trans"(%S_0) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
      %S_2 = "ttng.warp_group_dot"(%q_0, %S_1, %5, %8) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
      %S_3 = "ttng.warp_group_dot_wait"(%S_2) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      "ttng.arrive_barrier"(%20, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
      "ttng.arrive_barrier"(%12, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
      %m_new_0 = "tt.reduce"(%S_3) <{axis = 1 : i32}> ({
      ^bb1(%m_new_1: f32, %m_new_2: f32):
        %m_new_3 = "arith.maxnumf"(%m_new_1, %m_new_2) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
        "tt.reduce.return"(%m_new_3) : (f32) -> ()
      }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %m_new_4 = "tt.splat"(%qk_scale_0) : (f32) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %m_new_5 = "arith.mulf"(%m_new_0, %m_new_4) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %m_new_6 = "arith.maxnumf"(%m_new_5, %3) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %alpha_0 = "arith.subf"(%3, %m_new_6) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %alpha_1 = "math.exp2"(%alpha_0) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %p_0 = "tt.splat"(%qk_scale_0) : (f32) -> tensor<64x128xf32, #mma>
      %p_1 = "arith.mulf"(%S_3, %p_0) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %p_2 = "tt.expand_dims"(%m_new_6) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
      %p_3 = "tt.broadcast"(%p_2) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
      %p_4 = "arith.subf"(%p_1, %p_3) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %p_5 = "math.exp2"(%p_4) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %l_i_0 = "arith.mulf"(%alpha_1, %4) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %l_i_1 = "tt.reduce"(%p_5) <{axis = 1 : i32}> ({
      ^bb2(%l_i_2: f32, %l_i_3: f32):
        %l_i_4 = "arith.addf"(%l_i_2, %l_i_3) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
        "tt.reduce.return"(%l_i_4) : (f32) -> ()
      }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %l_i_5 = "arith.addf"(%l_i_0, %l_i_1) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %pd_0 = "arith.truncf"(%p_5) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
      %pd_1 = "ttg.convert_layout"(%pd_0) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
      %j_0:5 = "scf.for"(%0, %L_0, %0, %m_new_6, %l_i_5, %5, %pd_1, %2) ({
      ^bb3(%j_1: i32, %m_new_7: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %l_i_6: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %21: tensor<64x128xf32, #mma>, %pd_2: tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, %22: i32):
        %s_0 = "arith.remsi"(%22, %9) : (i32, i32) -> i32
        %ph_0 = "arith.divsi"(%22, %9) : (i32, i32) -> i32
        %ph_1 = "arith.andi"(%ph_0, %2) : (i32, i32) -> i32
        %sp_0 = "arith.subi"(%22, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %sp_1 = "arith.remsi"(%sp_0, %9) : (i32, i32) -> i32
        %php_0 = "arith.divsi"(%sp_0, %9) : (i32, i32) -> i32
        %php_1 = "arith.andi"(%php_0, %2) : (i32, i32) -> i32
        %23 = "ttg.memdesc_index"(%kfull_0, %s_0) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%23, %ph_1, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %24 = "arith.andi"(%22, %2) : (i32, i32) -> i32
        %25 = "arith.xori"(%24, %2) : (i32, i32) -> i32
        "ttng.wait_barrier"(%19, %25, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %S_4 = "ttg.memdesc_index"(%k_s_0, %s_0) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %S_5 = "ttg.memdesc_trans"(%S_4) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
        %S_6 = "ttng.warp_group_dot"(%q_0, %S_5, %5, %8) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        %26 = "ttg.memdesc_index"(%vfull_0, %sp_1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%26, %php_1, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %acc_t_0 = "ttg.memdesc_index"(%v_s_0, %sp_1) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %acc_t_1 = "ttng.warp_group_dot"(%pd_2, %acc_t_0, %21, %7) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        "ttng.arrive_barrier"(%20, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %S_7 = "ttng.warp_group_dot_wait"(%S_6) <{pendings = 1 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %27 = "ttg.memdesc_index"(%kempty_0, %s_0) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%27, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %m_new_8 = "tt.reduce"(%S_7) <{axis = 1 : i32}> ({
        ^bb4(%m_new_9: f32, %m_new_10: f32):
          %m_new_11 = "arith.maxnumf"(%m_new_9, %m_new_10) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%m_new_11) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_12 = "arith.mulf"(%m_new_8, %m_new_4) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_13 = "arith.maxnumf"(%m_new_7, %m_new_12) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_2 = "arith.subf"(%m_new_7, %m_new_13) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_3 = "math.exp2"(%alpha_2) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %p_6 = "arith.mulf"(%S_7, %p_0) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_7 = "tt.expand_dims"(%m_new_13) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %p_8 = "tt.broadcast"(%p_7) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_9 = "arith.subf"(%p_6, %p_8) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_10 = "math.exp2"(%p_9) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %l_i_7 = "arith.mulf"(%l_i_6, %alpha_3) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_8 = "tt.reduce"(%p_10) <{axis = 1 : i32}> ({
        ^bb5(%l_i_9: f32, %l_i_10: f32):
          %l_i_11 = "arith.addf"(%l_i_9, %l_i_10) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%l_i_11) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_12 = "arith.addf"(%l_i_7, %l_i_8) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %acc_0 = "ttng.warp_group_dot_wait"(%acc_t_1) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %28 = "ttg.memdesc_index"(%vempty_0, %sp_1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%28, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %acc_1 = "ttg.convert_layout"(%alpha_3) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %acc_2 = "tt.expand_dims"(%acc_1) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %acc_3 = "tt.broadcast"(%acc_2) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %acc_4 = "arith.mulf"(%acc_0, %acc_3) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %pd_3 = "arith.truncf"(%p_10) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
        %pd_4 = "ttg.convert_layout"(%pd_3) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
        %j_2 = "arith.addi"(%22, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "scf.yield"(%m_new_13, %l_i_12, %acc_4, %pd_4, %j_2) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> ()
      }) : (i32, i32, i32, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32)
      %sp_2 = "arith.subi"(%j_0#4, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %sp_3 = "arith.remsi"(%sp_2, %9) : (i32, i32) -> i32
      %php_2 = "arith.divsi"(%sp_2, %9) : (i32, i32) -> i32
      %php_3 = "arith.andi"(%php_2, %2) : (i32, i32) -> i32
      %29 = "ttg.memdesc_index"(%vfull_0, %sp_3) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      "ttng.wait_barrier"(%29, %php_3, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
      %acc_t_2 = "ttg.memdesc_index"(%v_s_0, %sp_3) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
      %acc_t_3 = "ttng.warp_group_dot"(%j_0#3, %acc_t_2, %j_0#2, %7) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
      %acc_5 = "ttng.warp_group_dot_wait"(%acc_t_3) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %30 = "ttg.memdesc_index"(%vempty_0, %sp_3) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      "ttng.arrive_barrier"(%30, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
      %acc_6 = "ttg.convert_layout"(%j_0#1) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %acc_7 = "tt.expand_dims"(%acc_6) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
      %acc_8 = "tt.broadcast"(%acc_7) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
      %acc_9 = "arith.divf"(%acc_5, %acc_8) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %m_i_0 = "math.log2"(%j_0#1) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %m_i_1 = "arith.addf"(%j_0#0, %m_i_0) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %31 = "tt.addptr"(%M_0, %base_0) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      %32 = "tt.splat"(%31) : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>
      %33 = "tt.addptr"(%32, %offs_m_3) : (tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>
      "tt.store"(%33, %m_i_1) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}> : (tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> ()
      %34 = "arith.truncf"(%acc_9) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
      "ttg.local_store"(%34, %q_0) : (tensor<64x128xf16, #mma>, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>) -> ()
      "ttng.fence_async_shared"() <{bCluster = false}> : () -> ()
      %35 = "arith.addi"(%base_0, %offs_m_0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      "ttng.async_tma_copy_local_to_global"(%o_desc_0, %35, %1, %q_0) : (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>) -> ()
      "ttng.async_tma_store_wait"() <{pendings = 0 : i32}> : () -> ()
      "ttg.warp_yield"() : () -> ()
    }, {
      "ttg.warp_specialize.partitions"() ({
      ^bb6(%36: !tt.tensordesc<tensor<64x128xf16, #shared>>, %37: !tt.ptr<f32>, %38: !ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, %39: !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, %40: !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, %41: !ttg.memdesc<1xi64, #shared1, #smem, mutable>, %42: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %43: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %44: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %45: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %46: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %47: f32, %48: i32, %49: !tt.tensordesc<tensor<64x128xf16, #shared>>, %50: !tt.tensordesc<tensor<128x128xf16, #shared>>, %51: !tt.tensordesc<tensor<128x128xf16, #shared>>):
        %52 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %53 = "arith.constant"() <{value = false}> : () -> i1
        %54 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %55 = "arith.constant"() <{value = true}> : () -> i1
        %56 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %qk_scale_1 = "arith.constant"() <{value = 1.44269502 : f32}> : () -> f32
        %57 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x128xf32, #mma>}> : () -> tensor<64x128xf32, #mma>
        %l_i_13 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>}> : () -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_i_2 = "arith.constant"() <{value = dense<0xFF800000> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>}> : () -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %58 = "arith.constant"() <{value = 64 : i32}> : () -> i32
        %59 = "arith.constant"() <{value = 128 : i32}> : () -> i32
        %pm_1 = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
        %bh_1 = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
        %base_1 = "arith.muli"(%bh_1, %48) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %offs_m_4 = "arith.muli"(%pm_1, %59) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %offs_m_5 = "arith.addi"(%offs_m_4, %58) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %offs_m_6 = "tt.make_range"() <{end = 64 : i32, start = 0 : i32}> : () -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
        %offs_m_7 = "tt.splat"(%offs_m_5) : (i32) -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
        %offs_m_8 = "arith.addi"(%offs_m_7, %offs_m_6) <{overflowFlags = #arith.overflow<none>}> : (tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
        %qk_scale_2 = "arith.mulf"(%47, %qk_scale_1) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
        "ttng.wait_barrier"(%41, %56, %55) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %q_1 = "ttg.memdesc_index"(%38, %54) : (!ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x128xf16, #shared, #smem, mutable>
        %60 = "ttg.memdesc_index"(%42, %56) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%60, %56, %55) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %61 = "ttg.memdesc_index"(%46, %54) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%61, %56, %55) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %S_8 = "ttg.memdesc_index"(%39, %56) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %S_9 = "ttg.memdesc_trans"(%S_8) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
        %S_10 = "ttng.warp_group_dot"(%q_1, %S_9, %57, %53) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        %S_11 = "ttng.warp_group_dot_wait"(%S_10) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %62 = "ttg.memdesc_index"(%46, %56) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%62, %55) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %63 = "ttg.memdesc_index"(%43, %56) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%63, %55) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %m_new_14 = "tt.reduce"(%S_11) <{axis = 1 : i32}> ({
        ^bb7(%m_new_15: f32, %m_new_16: f32):
          %m_new_17 = "arith.maxnumf"(%m_new_15, %m_new_16) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%m_new_17) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_18 = "tt.splat"(%qk_scale_2) : (f32) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_19 = "arith.mulf"(%m_new_14, %m_new_18) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_20 = "arith.maxnumf"(%m_new_19, %m_i_2) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_4 = "arith.subf"(%m_i_2, %m_new_20) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_5 = "math.exp2"(%alpha_4) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %p_11 = "tt.splat"(%qk_scale_2) : (f32) -> tensor<64x128xf32, #mma>
        %p_12 = "arith.mulf"(%S_11, %p_11) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_13 = "tt.expand_dims"(%m_new_20) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %p_14 = "tt.broadcast"(%p_13) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_15 = "arith.subf"(%p_12, %p_14) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_16 = "math.exp2"(%p_15) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %l_i_14 = "arith.mulf"(%alpha_5, %l_i_13) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_15 = "tt.reduce"(%p_16) <{axis = 1 : i32}> ({
        ^bb8(%l_i_16: f32, %l_i_17: f32):
          %l_i_18 = "arith.addf"(%l_i_16, %l_i_17) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%l_i_18) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_19 = "arith.addf"(%l_i_14, %l_i_15) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %pd_5 = "arith.truncf"(%p_16) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
        %pd_6 = "ttg.convert_layout"(%pd_5) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
        %j_3:5 = "scf.for"(%59, %48, %59, %m_new_20, %l_i_19, %57, %pd_6, %54) ({
        ^bb9(%j_4: i32, %m_new_21: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %l_i_20: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %64: tensor<64x128xf32, #mma>, %pd_7: tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, %65: i32):
          %s_1 = "arith.remsi"(%65, %52) : (i32, i32) -> i32
          %ph_2 = "arith.divsi"(%65, %52) : (i32, i32) -> i32
          %ph_3 = "arith.andi"(%ph_2, %54) : (i32, i32) -> i32
          %sp_4 = "arith.subi"(%65, %54) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %sp_5 = "arith.remsi"(%sp_4, %52) : (i32, i32) -> i32
          %php_4 = "arith.divsi"(%sp_4, %52) : (i32, i32) -> i32
          %php_5 = "arith.andi"(%php_4, %54) : (i32, i32) -> i32
          %66 = "ttg.memdesc_index"(%42, %s_1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.wait_barrier"(%66, %ph_3, %55) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %67 = "arith.andi"(%65, %54) : (i32, i32) -> i32
          "ttng.wait_barrier"(%61, %67, %55) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %S_12 = "ttg.memdesc_index"(%39, %s_1) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          %S_13 = "ttg.memdesc_trans"(%S_12) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
          %S_14 = "ttng.warp_group_dot"(%q_1, %S_13, %57, %53) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
          %68 = "ttg.memdesc_index"(%44, %sp_5) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.wait_barrier"(%68, %php_5, %55) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %acc_t_4 = "ttg.memdesc_index"(%40, %sp_5) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          %acc_t_5 = "ttng.warp_group_dot"(%pd_7, %acc_t_4, %64, %55) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
          "ttng.arrive_barrier"(%62, %55) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %S_15 = "ttng.warp_group_dot_wait"(%S_14) <{pendings = 1 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %69 = "ttg.memdesc_index"(%43, %s_1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.arrive_barrier"(%69, %55) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %m_new_22 = "tt.reduce"(%S_15) <{axis = 1 : i32}> ({
          ^bb10(%m_new_23: f32, %m_new_24: f32):
            %m_new_25 = "arith.maxnumf"(%m_new_23, %m_new_24) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
            "tt.reduce.return"(%m_new_25) : (f32) -> ()
          }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %m_new_26 = "arith.mulf"(%m_new_22, %m_new_18) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %m_new_27 = "arith.maxnumf"(%m_new_21, %m_new_26) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %alpha_6 = "arith.subf"(%m_new_21, %m_new_27) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %alpha_7 = "math.exp2"(%alpha_6) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %p_17 = "arith.mulf"(%S_15, %p_11) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %p_18 = "tt.expand_dims"(%m_new_27) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
          %p_19 = "tt.broadcast"(%p_18) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
          %p_20 = "arith.subf"(%p_17, %p_19) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %p_21 = "math.exp2"(%p_20) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %l_i_21 = "arith.mulf"(%l_i_20, %alpha_7) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %l_i_22 = "tt.reduce"(%p_21) <{axis = 1 : i32}> ({
          ^bb11(%l_i_23: f32, %l_i_24: f32):
            %l_i_25 = "arith.addf"(%l_i_23, %l_i_24) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
            "tt.reduce.return"(%l_i_25) : (f32) -> ()
          }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %l_i_26 = "arith.addf"(%l_i_21, %l_i_22) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %acc_10 = "ttng.warp_group_dot_wait"(%acc_t_5) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %70 = "ttg.memdesc_index"(%45, %sp_5) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.arrive_barrier"(%70, %55) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %acc_11 = "ttg.convert_layout"(%alpha_7) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %acc_12 = "tt.expand_dims"(%acc_11) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
          %acc_13 = "tt.broadcast"(%acc_12) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
          %acc_14 = "arith.mulf"(%acc_10, %acc_13) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %pd_8 = "arith.truncf"(%p_21) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
          %pd_9 = "ttg.convert_layout"(%pd_8) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
          %j_5 = "arith.addi"(%65, %54) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          "scf.yield"(%m_new_27, %l_i_26, %acc_14, %pd_9, %j_5) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> ()
        }) : (i32, i32, i32, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32)
        %sp_6 = "arith.subi"(%j_3#4, %54) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %sp_7 = "arith.remsi"(%sp_6, %52) : (i32, i32) -> i32
        %php_6 = "arith.divsi"(%sp_6, %52) : (i32, i32) -> i32
        %php_7 = "arith.andi"(%php_6, %54) : (i32, i32) -> i32
        %71 = "ttg.memdesc_index"(%44, %sp_7) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%71, %php_7, %55) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %acc_t_6 = "ttg.memdesc_index"(%40, %sp_7) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %acc_t_7 = "ttng.warp_group_dot"(%j_3#3, %acc_t_6, %j_3#2, %55) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        %acc_15 = "ttng.warp_group_dot_wait"(%acc_t_7) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %72 = "ttg.memdesc_index"(%45, %sp_7) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%72, %55) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %acc_16 = "ttg.convert_layout"(%j_3#1) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %acc_17 = "tt.expand_dims"(%acc_16) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %acc_18 = "tt.broadcast"(%acc_17) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %acc_19 = "arith.divf"(%acc_15, %acc_18) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %m_i_3 = "math.log2"(%j_3#1) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_i_4 = "arith.addf"(%j_3#0, %m_i_3) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %73 = "tt.addptr"(%37, %base_1) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
        %74 = "tt.splat"(%73) : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>
        %75 = "tt.addptr"(%74, %offs_m_8) : (tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>
        "tt.store"(%75, %m_i_4) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}> : (tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> ()
        %76 = "arith.truncf"(%acc_19) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
        "ttg.local_store"(%76, %q_1) : (tensor<64x128xf16, #mma>, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>) -> ()
        "ttng.fence_async_shared"() <{bCluster = false}> : () -> ()
        %77 = "arith.addi"(%base_1, %offs_m_4) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %78 = "arith.addi"(%77, %58) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "ttng.async_tma_copy_local_to_global"(%36, %78, %56, %q_1) : (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>) -> ()
        "ttng.async_tma_store_wait"() <{pendings = 0 : i32}> : () -> ()
        "ttg.warp_return"() : () -> ()
      }, {
      ^bb12(%79: !tt.tensordesc<tensor<64x128xf16, #shared>>, %80: !tt.ptr<f32>, %81: !ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, %82: !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, %83: !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, %84: !ttg.memdesc<1xi64, #shared1, #smem, mutable>, %85: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %86: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %87: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %88: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %89: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %90: f32, %91: i32, %92: !tt.tensordesc<tensor<64x128xf16, #shared>>, %93: !tt.tensordesc<tensor<128x128xf16, #shared>>, %94: !tt.tensordesc<tensor<128x128xf16, #shared>>):
        %95 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %96 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %97 = "arith.constant"() <{value = 64 : i32}> : () -> i32
        %98 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %99 = "arith.constant"() <{value = 128 : i32}> : () -> i32
        %100 = "arith.constant"() <{value = true}> : () -> i1
        %pm_2 = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
        %bh_2 = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
        %base_2 = "arith.muli"(%bh_2, %91) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "ttng.barrier_expect"(%84, %100) <{size = 32768 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %101 = "arith.muli"(%pm_2, %99) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %102 = "arith.addi"(%base_2, %101) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %103 = "ttg.memdesc_index"(%81, %98) : (!ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x128xf16, #shared, #smem, mutable>
        "ttng.async_tma_copy_global_to_local"(%92, %102, %98, %84, %103, %100) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>, i1) -> ()
        %104 = "arith.addi"(%102, %97) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %105 = "ttg.memdesc_index"(%81, %96) : (!ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x128xf16, #shared, #smem, mutable>
        "ttng.async_tma_copy_global_to_local"(%92, %104, %98, %84, %105, %100) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>, i1) -> ()
        %i_0 = "scf.for"(%98, %91, %99, %98) ({
        ^bb13(%n_0: i32, %i_1: i32):
          %s_2 = "arith.remsi"(%i_1, %95) : (i32, i32) -> i32
          %ph_4 = "arith.divsi"(%i_1, %95) : (i32, i32) -> i32
          %ph_5 = "arith.andi"(%ph_4, %96) : (i32, i32) -> i32
          %106 = "ttg.memdesc_index"(%86, %s_2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          %107 = "arith.xori"(%ph_5, %96) : (i32, i32) -> i32
          "ttng.wait_barrier"(%106, %107, %100) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %108 = "ttg.memdesc_index"(%85, %s_2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.barrier_expect"(%108, %100) <{size = 32768 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %109 = "arith.addi"(%base_2, %n_0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %110 = "ttg.memdesc_index"(%82, %s_2) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          "ttng.async_tma_copy_global_to_local"(%93, %109, %98, %108, %110, %100) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<128x128xf16, #shared>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, i1) -> ()
          %111 = "ttg.memdesc_index"(%88, %s_2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.wait_barrier"(%111, %107, %100) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %112 = "ttg.memdesc_index"(%87, %s_2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.barrier_expect"(%112, %100) <{size = 32768 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %113 = "ttg.memdesc_index"(%83, %s_2) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          "ttng.async_tma_copy_global_to_local"(%94, %109, %98, %112, %113, %100) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<128x128xf16, #shared>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, i1) -> ()
          %i_2 = "arith.addi"(%i_1, %96) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          "scf.yield"(%i_2) : (i32) -> ()
        }) : (i32, i32, i32, i32) -> i32
        "ttg.warp_return"() : () -> ()
      }) : () -> ()
    }) : (!tt.tensordesc<tensor<64x128xf16, #shared>>, !tt.ptr<f32>, !ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, f32, i32, !tt.tensordesc<tensor<64x128xf16, #shared>>, !tt.tensordesc<tensor<128x128xf16, #shared>>, !tt.tensordesc<tensor<128x128xf16, #shared>>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} : () -> ()
